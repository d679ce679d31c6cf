"""Membership in a cluster of Apache Kafka's KRaft controllers.

| module           | purpose                                                                               |
|------------------|---------------------------------------------------------------------------------------|
| role             | joins what follows: opens, registers, and leaves the cluster                          |
| addresses        | addresses of the controllers in the settings                                          |
| quorum           | connections to the controllers, requests to the active one                            |
| reader           | reads the metadata log                                                                |
| metadata_copy    | the copy of the metadata log on disk                                                  |
| publisher        | committed records become the image, nodes of the tree, and orders to the replicas     |
| published_offset | offset of the last record whose changes are published                                 |
| quorum_state     | state of the controllers' quorum, as its leader describes it                          |
| status           | state of this broker and of the controllers, for pages and metrics                    |
| lifecycle        | registration, heartbeats and controlled shutdown                                      |
| admin            | changes of the metadata that this broker asks for                                     |
| forwarding       | clients' requests that only the active controller can carry out (Envelope)            |
| directories      | reports the log directories of this broker's replicas                                 |

`pylogbroker.kraft` has the state machines, without I/O.
"""
