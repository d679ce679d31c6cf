"""What the brokers of a cluster agree on: a tree of small nodes, laid out as Kafka lays out ZooKeeper.

paths       where things are kept
layout      how they are written there: the JSON of Kafka's nodes
embedded    the tree of a cluster of one broker, in a SQLite file
identity    the cluster's id and the broker's number
"""
