"""One node of a cluster: its topics and partitions, and what answers each request.

`broker` holds it together; `catalog` knows the topics and keeps them in the coordination tree; `partitions` are those
that this node leads; `fetch` handles fetches; `coordinators` keeps the records of groups and
transactions in logs; `jobs` are done from time to time; `apis` has one module for each API,
and the table of them.
"""
