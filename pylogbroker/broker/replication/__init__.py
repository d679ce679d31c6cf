"""Replicas on this broker, driven: `pylogbroker.replication` decides, this package reads, writes and sends.

| module             | purpose                                                                         |
|--------------------|---------------------------------------------------------------------------------|
| replicas           | every replica of this broker: leads, follows and stops as the controller orders |
| leadership         | a led partition's state machine and its actions                                 |
| following          | a follower's state machine and its actions                                      |
| fetcher            | fetches for the replicas that follow one leader                                 |
| fetch_sessions     | incremental fetches (KIP-227), of the follower's side                           |
| isr_updates        | AlterPartition requests to the controller                                       |
| log_dir_failures   | notifies the controller that logs went offline                                  |
| channels           | connections to other brokers; controller_channel: to the controller             |
| log_view           | a log as the state machines read it                                             |
"""
