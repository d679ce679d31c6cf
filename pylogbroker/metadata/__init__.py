"""Metadata of the cluster: the schema of Kafka's nodes in ZooKeeper, their paths, and a broker's registration."""
