"""Groups of Kafka Streams (KIP-1071), without I/O and clock: the coordinator assigns tasks of a topology to members.

coordination     requests about groups; `requests` has their values
membership       heartbeats and timeouts of members; `group` and `member` are what they change, `admission` who may join
configuration    what a topology needs of the cluster's topics: numbers of tasks, internal topics
targets          who is to have which task; `reconciliation` is a member's step towards that
endpoints        which instance answers interactive queries about which partitions
record_forms     records of a group; `record_schema` has their format, `replay` rebuilds groups from them
"""
