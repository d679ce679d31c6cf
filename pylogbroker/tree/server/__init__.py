"""ZooKeeper's client protocol, served from a tree's database: one process without a quorum, for one machine."""
