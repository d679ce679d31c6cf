"""Controller of a cluster whose metadata is in ZooKeeper: events in, writes to the tree and requests to brokers out.

Nothing here does I/O or reads a clock: the tree and the brokers are behind the protocols of `ports`.
"""
