"""One node of a cluster: its topics and partitions, and what answers each request.

`assembly` connects the services. `controller` decides changes of the metadata and writes them to the coordination tree;
`cluster_metadata` holds the current image. `partitions` are those that this node leads. `fetch` handles fetches.
`coordinators` keeps the records of groups and transactions in logs. `jobs` run in the background. `apis` has one module
for each API.
"""
