"""The group and the transaction coordinator in their broker.

`group_service` and `transaction_service` hold them; `driver` loads their shards and runs their timers. `internal_topic`
reads and writes the partitions of a coordinator's topic, through `partition_writer`. `marker_writer` ends transactions
in partitions that this broker leads, `marker_sender` in those of other brokers.
"""
