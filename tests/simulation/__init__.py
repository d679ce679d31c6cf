"""Brokers of a cluster in one process, on simulated time, network, ZooKeeper or KRaft controllers, threads and disks.

    world         time: one queue of events; a seed gives their order
    network       TCP connections with delays
    stored_metadata   metadata that the cluster has agreed on, by `zookeeper_metadata` or `quorum`
    ensemble      ZooKeeper: the tree, sessions, watches
    quorum, applied_metadata   KRaft's controllers, and what brokers apply of their log
    disk          what of a broker's files is synced
    seams         puts these in the place of the system's; the rest of a broker is the product
    broker        a broker: its files, and one process after the other
    cluster       the brokers, and what tests see of them
    clients       producers and consumers
    pipeliners    producers with several requests in flight
    groups        members of a consumer group, and what they have committed
    consumer_groups   members of a consumer group of KIP-848, whose coordinator assigns
    share_members, share_ledger   members of a share group, and what they may get
    copiers       records copied in transactions, with their offsets
    reassigner    moves of replicas
    recreator     deletions of a topic, which is created again
    administrator changes of settings and ACLs
    registers     values that a read may find, although the outcome of some writes is unknown
    faults        lost connections, cuts, pauses, kills, losses of power, expired sessions
    replica_log   records in replicas' files
    invariants    checked after each event
    rest          what must hold once nothing disturbs the cluster any more
    setup, runs   a seed gives the setup and all choices of a run

    scale, scale_zookeeper, measured   one broker in large clusters: processor time and memory

`python -m tests.simulation --seeds 1000 --first 1` runs more seeds, with `--engine kraft` those of KRaft's controllers.
"""
