"""ZooKeeper's nodes, wherever they are kept: data by path.

reading           one or several sources, each of the kind that it is
jute              ZooKeeper's encoding of values
snapshot          `snapshot.<zxid>`: all nodes, as of about a transaction
transaction_log   `log.<zxid>`: what happened after that
dump              nodes as JSON, or as a listing
live              a server that runs
"""

from pylogbroker.offline.zookeeper.reading import Nodes, read_nodes

__all__ = ["Nodes", "read_nodes"]
