"""Work on a stopped broker's files: imports, a rebuilt coordination tree, backups.

stopped            a stopped broker: its directories locked, its tree open, its logs loaded on demand
kafka07_source     the log directories of Kafka 0.7: what is there, and how much of it is sound
kafka07_import     partitions of Kafka 0.7 become topics
zookeeper          ZooKeeper's files, dumps and a live server, read into nodes by path
registry           what Kafka keeps in ZooKeeper: topics, their settings, and the offsets of groups
registry_import    what of it becomes topics and committed offsets
survey             what the directories of logs tell of topics
rebuild            a coordination tree made from that
backup             a copy of a broker's files, also of one that runs

Everything here blocks, and runs without a reactor.
"""
