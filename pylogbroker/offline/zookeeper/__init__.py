"""Read ZooKeeper's nodes from any source: data by path.

sources           nodes from any source
snapshot          `snapshot.<zxid>`: all nodes at about one transaction
transaction_log   `log.<zxid>`: later changes
dump              nodes as JSON, or as a listing
server            a running server
"""

from pylogbroker.offline.zookeeper.sources import Nodes, read_nodes

__all__ = ["Nodes", "read_nodes"]
