"""Group consumers: the connector, its streams and their parts.

`connector`              the public class; `wiring`: its parts
`streams`                interface for reading messages
`assigned_partitions`    from assignment to revocation
`fetch_buffer`           one partition's fetched messages and offsets
`fetched_leader`         partitions that are fetched from one broker, and what its next request must say
`fetcher`                fills the buffers; `fetch_session`: KIP-227; `unpacker`: bytes to messages
`positions`              start offsets; `list_offsets`: offsets by time
`truncation`             truncation detection after a change of leader
`committer`              when to commit which offsets; `offset_stores`: where
`group_membership`       by the group coordinator or by the coordination tree
`group_protocol`         settings that go with a protocol; `actions`: what members do in both
`member_state_machine`   a member of a classic group; `member_driver`: its requests
`epoch_member`           a member whose coordinator assigns (KIP-848); `epoch_member_driver`: its requests
`group_heartbeats`       its heartbeats; `member_tasks`: tasks and timer of both
`registry`               membership by the coordination tree; `registry_plan`: its algorithm
`filters`                topics by regex; `stream_subscription`: a program's topics and streams
"""
