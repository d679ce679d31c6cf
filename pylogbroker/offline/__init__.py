"""Tools for a stopped broker's files: imports, rebuilding the coordination tree, backups.

stopped_broker     open a stopped broker: directories locked, tree open, logs loaded on demand
kafka07_import     import partitions of Kafka 0.7 as topics
zookeeper          read nodes from ZooKeeper's files, dumps and a live server
registry           parse Kafka's nodes: topics, settings, committed offsets
registry_import    import them as topics and committed offsets
inventory          inspect log directories without the tree
rebuild            rebuild the tree from the log directories
backup             copy a broker's files, also while it runs

Everything here blocks, and runs without a reactor.
"""
