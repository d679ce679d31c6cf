"""Share groups (KIP-932), without I/O and clock.

At the group coordinator, with records in `__consumer_offsets`:

coordination        requests about groups; `requests` has their values
membership          heartbeats and timeouts of members; `group` and `member` are what they change
targets             who reads which partition
states              states of partitions that a group lets the share coordinator make and delete
record_forms        records of a group; `record_schema` has their format, `replay` rebuilds groups from them

At the leader of a partition:

partition           the records of one partition as one group sees them
sessions            which partitions a member fetches, by its connection
values              their states, acknowledgements, and records as they are persisted

At the share coordinator:

state_coordinator   states of share partitions in `__share_group_state`; `state_shard`, `state_records`, `stored_state`
"""
