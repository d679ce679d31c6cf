"""Clusters on one ZooKeeper: Apache Kafka's brokers and this project's, side by side, with faults.

cluster        Brokers with ids, their starts and ends, and questions about their partitions.
members        The brokers: `apache` of any release and protocol version, `own`.
network        Links between them, which are cut in one direction or delayed.
tree           The state in ZooKeeper, read by kazoo.
replica_logs   The records in each replica's files, and their comparison.
traffic        Clients that work meanwhile, and the checks of their answers.
faults         Kills, stops and pauses at random moments.
run            All of that together, for long or short.
cluster_reader Reads whole partitions from their leaders, and groups' offsets.
"""
