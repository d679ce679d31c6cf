"""Keys and values of the records of consumer groups in `__consumer_offsets`, in Kafka's format.

    key of                                   version   key                     value, always version 0
    -------------------------------------    -------   ---------------------   ------------------------
    a group's epoch                          3         `GroupKey`              `GroupValue`
    a group's topics, by Kafka 4.0 alone     4         `PartitionMetadataKey`  not read; removed later
    a member                                 5         `MemberKey`             `MemberValue`
    the epoch of the target assignment       6         `TargetKey`             `TargetValue`
    a member's target assignment             7         `MemberTargetKey`       `MemberTargetValue`
    a member's current assignment            8         `CurrentKey`            `CurrentValue`
    what a regular expression matches        16        `ExpressionKey`         `ExpressionValue`

A null value is a tombstone. For example, the epoch 3 of group `g`:

    key      0003  0001 67               value    0000  00000003  00
             |     group                          |     epoch     no tagged fields
             version                              version
"""

from typing import Annotated

from pylogbroker.groups.consumer.group import RecordKind
from pylogbroker.records import Buffer
from pylogbroker.wire import Versions, WireMessage
from pylogbroker.wire.schema import (
    NO_ID,
    Bytes,
    Int8,
    Int32,
    Int64,
    String,
    Tag,
    Uuid,
    fresh,
    struct,
)
from pylogbroker.wire.versioned_messages import decode, encode, version_of

PARTITION_METADATA_KEY = 4


@struct
class GroupKey(WireMessage):
    versions = Versions(RecordKind.GROUP, RecordKind.GROUP)

    group_id: String = ""


@struct
class PartitionMetadataKey(WireMessage):
    versions = Versions(PARTITION_METADATA_KEY, PARTITION_METADATA_KEY)

    group_id: String = ""


@struct
class MemberKey(WireMessage):
    versions = Versions(RecordKind.MEMBER, RecordKind.MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class TargetKey(WireMessage):
    versions = Versions(RecordKind.TARGET, RecordKind.TARGET)

    group_id: String = ""


@struct
class MemberTargetKey(WireMessage):
    versions = Versions(RecordKind.TARGET_OF_MEMBER, RecordKind.TARGET_OF_MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class CurrentKey(WireMessage):
    versions = Versions(RecordKind.CURRENT, RecordKind.CURRENT)

    group_id: String = ""
    member_id: String = ""


@struct
class ExpressionKey(WireMessage):
    versions = Versions(RecordKind.EXPRESSION, RecordKind.EXPRESSION)

    group_id: String = ""
    expression: String = ""


Key = GroupKey | PartitionMetadataKey | MemberKey | TargetKey | MemberTargetKey | CurrentKey | ExpressionKey


@struct
class GroupValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, Tag(0)] = 0


@struct
class ClassicProtocol:
    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = fresh(list)


@struct
class MemberValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = fresh(list)
    subscribed_topic_regex: String | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tag(0)] = fresh(ClassicMemberMetadata)
    """None of a member that is not classic: Kafka writes that, and reads an absent field as an empty struct."""


@struct
class TargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


@struct
class TopicPartitions:
    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class MemberTargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    topic_partitions: list[TopicPartitions] = fresh(list)


@struct
class CurrentTopicPartitions:
    """`assignment_epochs` has as many elements as `partitions`."""

    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)
    assignment_epochs: Annotated[list[Int32] | None, Tag(0)] = None


@struct
class CurrentValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[CurrentTopicPartitions] = fresh(list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = fresh(list)


@struct
class ExpressionValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    topics: list[String] = fresh(list)
    version: Int64 = 0
    timestamp: Int64 = 0


_KEYS: dict[int, type[Key]] = {
    RecordKind.GROUP: GroupKey,
    PARTITION_METADATA_KEY: PartitionMetadataKey,
    RecordKind.MEMBER: MemberKey,
    RecordKind.TARGET: TargetKey,
    RecordKind.TARGET_OF_MEMBER: MemberTargetKey,
    RecordKind.CURRENT: CurrentKey,
    RecordKind.EXPRESSION: ExpressionKey,
}


def encode_key(kind: RecordKind, group_id: str, name: str) -> bytes:
    make = _KEYS[kind]
    key = make(group_id) if make in (GroupKey, TargetKey) else make(group_id, name)  # type: ignore[call-arg]
    return encode(key, kind)


def encode_partition_metadata_key(group_id: str) -> bytes:
    return encode(PartitionMetadataKey(group_id), PARTITION_METADATA_KEY)


def decode_key(key: Buffer) -> Key | None:
    """Return None for the keys of other records."""
    kind = _KEYS.get(version_of(key))
    return None if kind is None else decode(kind, key)
