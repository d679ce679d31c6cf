"""Tools for a stopped broker's files: imports, rebuilding the coordination tree, backups.

    stopped_broker     open a stopped broker: lock directories, open the tree, load logs on demand
    kafka07_import     import partitions of Kafka 0.7 as topics
    zookeeper          read nodes from ZooKeeper's files, dumps and servers
    registry           parse Kafka's nodes: topics, settings, committed offsets
    registry_import    import these topics and offsets
    inventory          inspect log directories without the tree
    rebuild            rebuild the tree from log directories
    dumping            contents of segments, indexes and checkpoints as rows
    verification       verify every segment, index and checkpoint
    backup             copy a broker's files, also while it runs

Everything blocks, and runs without a reactor.
"""
