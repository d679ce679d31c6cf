"""Share groups in a broker (KIP-932).

state_service    the share coordinator, whose records `__share_group_state` keeps
state_calls      what leaders and the group coordinator ask it
persister        asks the share coordinator here, or the brokers that have it
group_offsets    where groups start in their partitions, and their lag
"""
