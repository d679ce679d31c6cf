"""Membership in a cluster of several brokers, of this project or Apache Kafka.

| module               | purpose                                                                        |
|----------------------|--------------------------------------------------------------------------------|
| cluster_role         | joins what follows: opens, registers, and leaves the cluster                   |
| member               | the registration, and sessions with ZooKeeper                                  |
| departure            | leaves ISRs after a crash, before the broker registers                         |
| orders               | requests of the controller: LeaderAndIsr, UpdateMetadata, StopReplica          |
| config_watch         | settings of topics and brokers in the tree                                     |
| unclean_elections    | unclean.leader.election.enable, set while brokers run                          |
| admin                | changes that clients ask of this broker                                        |
| control              | what handlers ask of the controller, as a protocol                             |
| controller_driver    | elections of this broker as the controller, requests of handlers               |
| active_controller    | one term: watches, and events one after the other                              |
| controller_tree      | the coordination tree over one session, as a controller needs it               |
| controller_channels  | requests to all brokers, repeated until they are answered                      |
| controller_requests  | these requests as messages of the wire                                         |
| topic_administration | nodes of topics that are created, enlarged or deleted                          |
"""
