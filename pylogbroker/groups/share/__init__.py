"""Share groups (KIP-932), without I/O and clock.

partition           the records of one partition as one group sees them, at the partition's leader
sessions            which partitions a member fetches, by its connection
values              their states, acknowledgements, and records as they are persisted
state_coordinator   states of share partitions in `__share_group_state`; `state_shard`, `state_records`, `stored_state`
"""
