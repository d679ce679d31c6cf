"""Coordination tree: the cluster's metadata in small nodes, with the paths and JSON that Kafka uses in ZooKeeper.

paths       paths of the nodes
layout      JSON values of the nodes
embedded    the tree of a cluster of one broker, in a SQLite file
identity    cluster id, broker id and log directories
"""
