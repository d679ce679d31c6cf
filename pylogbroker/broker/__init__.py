"""One node of a cluster: its topics and partitions, and the handlers of requests.

`assembly` connects the services. `controller` decides changes of the metadata; `cluster_metadata` holds the current
image. `partitions` are those that this node leads. `coordinators` keeps groups and transactions in logs. `jobs` run in
the background.
"""
