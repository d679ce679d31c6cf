"""Keys and values of the records of groups of Kafka Streams in `__consumer_offsets`, in Kafka's format.

    key of                               version   key                       value, always version 0
    ---------------------------------    -------   -----------------------   -------------------------
    a group's epoch                      17        `StreamsGroupKey`         `StreamsGroupValue`
    a member                             19        `StreamsMemberKey`        `StreamsMemberValue`
    the epoch of the target assignment   20        `StreamsTargetKey`        `StreamsTargetValue`
    a member's target assignment         21        `StreamsMemberTargetKey`  `StreamsMemberTargetValue`
    a member's current assignment        22        `StreamsCurrentKey`       `StreamsCurrentValue`
    the topology                         23        `StreamsTopologyKey`      `StreamsTopologyValue`

A null value is a tombstone. For example, the target epoch 3 of group `g`:

    key      0014  0001 67               value    0000  00000003  00
             |     group                          |     epoch     no tagged fields
             version                              version
"""

from typing import Annotated

from pylogbroker.groups.streams.group import StreamsRecordKind
from pylogbroker.records import Buffer
from pylogbroker.wire import Versions, WireMessage
from pylogbroker.wire.schema import Int8, Int32, Int64, String, Tag, fresh, struct
from pylogbroker.wire.streams_topology import StreamsEndpoint, StreamsKeyValue, StreamsSubtopology, StreamsTaskIds
from pylogbroker.wire.versioned_messages import decode, encode, version_of


@struct
class StreamsGroupKey(WireMessage):
    versions = Versions(StreamsRecordKind.GROUP, StreamsRecordKind.GROUP)

    group_id: String = ""


@struct
class StreamsMemberKey(WireMessage):
    versions = Versions(StreamsRecordKind.MEMBER, StreamsRecordKind.MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class StreamsTargetKey(WireMessage):
    versions = Versions(StreamsRecordKind.TARGET, StreamsRecordKind.TARGET)

    group_id: String = ""


@struct
class StreamsMemberTargetKey(WireMessage):
    versions = Versions(StreamsRecordKind.TARGET_OF_MEMBER, StreamsRecordKind.TARGET_OF_MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class StreamsCurrentKey(WireMessage):
    versions = Versions(StreamsRecordKind.CURRENT, StreamsRecordKind.CURRENT)

    group_id: String = ""
    member_id: String = ""


@struct
class StreamsTopologyKey(WireMessage):
    versions = Versions(StreamsRecordKind.TOPOLOGY, StreamsRecordKind.TOPOLOGY)

    group_id: String = ""


StreamsKey = (
    StreamsGroupKey
    | StreamsMemberKey
    | StreamsTargetKey
    | StreamsMemberTargetKey
    | StreamsCurrentKey
    | StreamsTopologyKey
)


@struct
class StreamsGroupValue(WireMessage):
    """The last two fields are of topology descriptions, which Kafka 4.4 gives to a plugin: they are kept as -1."""

    versions = Versions(0, 0, flexible=0)

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, Tag(0)] = -1
    last_assignment_configs: Annotated[list[StreamsKeyValue] | None, Tag(1)] = fresh(list)
    stored_description_topology_epoch: Annotated[Int32, Tag(2)] = -1
    failed_description_topology_epoch: Annotated[Int32, Tag(3)] = -1


@struct
class StreamsMemberValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[StreamsKeyValue] = fresh(list)


@struct
class StreamsTargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


@struct
class StreamsMemberTargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    active_tasks: list[StreamsTaskIds] = fresh(list)
    standby_tasks: list[StreamsTaskIds] = fresh(list)
    warmup_tasks: list[StreamsTaskIds] = fresh(list)


@struct
class CurrentTaskIds:
    """`assignment_epochs`, of active tasks alone, has as many elements as `partitions`; else none."""

    subtopology_id: String = ""
    partitions: list[Int32] = fresh(list)
    assignment_epochs: Annotated[list[Int32] | None, Tag(0)] = fresh(list)


@struct
class StreamsCurrentValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[CurrentTaskIds] = fresh(list)
    standby_tasks: list[CurrentTaskIds] = fresh(list)
    warmup_tasks: list[CurrentTaskIds] = fresh(list)
    active_tasks_pending_revocation: list[CurrentTaskIds] = fresh(list)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = fresh(list)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = fresh(list)


@struct
class StreamsTopologyValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    epoch: Int32 = 0
    subtopologies: list[StreamsSubtopology] = fresh(list)


_OF_GROUPS: dict[int, type[StreamsGroupKey | StreamsTargetKey | StreamsTopologyKey]] = {
    StreamsRecordKind.GROUP: StreamsGroupKey,
    StreamsRecordKind.TARGET: StreamsTargetKey,
    StreamsRecordKind.TOPOLOGY: StreamsTopologyKey,
}
_OF_MEMBERS: dict[int, type[StreamsMemberKey | StreamsMemberTargetKey | StreamsCurrentKey]] = {
    StreamsRecordKind.MEMBER: StreamsMemberKey,
    StreamsRecordKind.TARGET_OF_MEMBER: StreamsMemberTargetKey,
    StreamsRecordKind.CURRENT: StreamsCurrentKey,
}


def encode_key(kind: StreamsRecordKind, group_id: str, member_id: str) -> bytes:
    of_group = _OF_GROUPS.get(kind)
    key = _OF_MEMBERS[kind](group_id, member_id) if of_group is None else of_group(group_id)
    return encode(key, kind)


def decode_key(key: Buffer) -> StreamsKey | None:
    """Return None for the keys of other records."""
    version = version_of(key)
    kind = _OF_GROUPS.get(version) or _OF_MEMBERS.get(version)
    return None if kind is None else decode(kind, key)
