"""Share groups in a broker (KIP-932).

service          sessions of members, at the leaders of partitions
dead_letters     records that are rejected, or delivered too often
share_fetch      one request for records: acquires them, or waits
led_partitions   the share partitions that are led here; `led_partition`, `record_batches`, `delivery_settings`
persister        asks the share coordinator here, or the brokers that have it
group_offsets    where groups start in their partitions, and their lag
state_service    the share coordinator, whose records `__share_group_state` keeps; `state_calls`, `state_requests`
"""
