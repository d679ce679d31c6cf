"""One node of a cluster: its topics and partitions, and what answers each request.

`broker` holds it together; `catalog` knows the topics and keeps them in the coordination tree; `partitions` are those
that this node leads; `fetch` handles fetches; `group_service` and `transaction_service` keep in logs what coordinators
remember, and `coordinator_driver` drives both; `jobs` are done from time to time; `apis` has one module for each API,
and the table of them.
"""
