"""A broker's view of Apache Kafka's KRaft controllers, without I/O or clock.

    metadata_log   reads the metadata log from the active controller: offsets, epochs, snapshots, what is committed
    fold           committed records to changes of the cluster's image: brokers, topics, settings
    entities       committed records to nodes: users, quotas, ACLs, tokens, features
    registration   registration, heartbeats and controlled shutdown

The controllers decide and agree; this package follows. `broker.kraft` drives it.
"""
