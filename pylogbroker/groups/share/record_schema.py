"""Keys and values of the records of share groups in `__consumer_offsets`, in Kafka's format.

    key of                               version   key                    value, always version 0
    ---------------------------------    -------   --------------------   -----------------------
    a member                             10        `ShareMemberKey`       `ShareMemberValue`
    a group's epoch                      11        `ShareGroupKey`        `ShareGroupValue`
    the epoch of the target assignment   12        `ShareTargetKey`       `ShareTargetValue`
    a member's target assignment         13        `ShareMemberTargetKey` `ShareMemberTargetValue`
    a member's current assignment        14        `ShareCurrentKey`      `ShareCurrentValue`
    partitions with a state              15        `StatePartitionsKey`   `StatePartitionsValue`

A null value is a tombstone. For example, the target epoch 3 of group `g`:

    key      000c  0001 67               value    0000  00000003  01 00 08 000001a3c5e2f000
             |     group                          |     epoch     |  |  |  time of the assignment
             version                              version         |  |  size
                                                                  |  tag
                                                                  number of tagged fields
"""

from typing import Annotated

from pylogbroker.groups.share.group import ShareRecordKind
from pylogbroker.records import Buffer
from pylogbroker.wire import Versions, WireMessage
from pylogbroker.wire.schema import NO_ID, Int8, Int32, Int64, String, Tag, Uuid, fresh, struct
from pylogbroker.wire.versioned_messages import decode, encode, version_of


@struct
class ShareMemberKey(WireMessage):
    versions = Versions(ShareRecordKind.MEMBER, ShareRecordKind.MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class ShareGroupKey(WireMessage):
    versions = Versions(ShareRecordKind.GROUP, ShareRecordKind.GROUP)

    group_id: String = ""


@struct
class ShareTargetKey(WireMessage):
    versions = Versions(ShareRecordKind.TARGET, ShareRecordKind.TARGET)

    group_id: String = ""


@struct
class ShareMemberTargetKey(WireMessage):
    versions = Versions(ShareRecordKind.TARGET_OF_MEMBER, ShareRecordKind.TARGET_OF_MEMBER)

    group_id: String = ""
    member_id: String = ""


@struct
class ShareCurrentKey(WireMessage):
    versions = Versions(ShareRecordKind.CURRENT, ShareRecordKind.CURRENT)

    group_id: String = ""
    member_id: String = ""


@struct
class StatePartitionsKey(WireMessage):
    versions = Versions(ShareRecordKind.STATE_PARTITIONS, ShareRecordKind.STATE_PARTITIONS)

    group_id: String = ""


ShareKey = ShareMemberKey | ShareGroupKey | ShareTargetKey | ShareMemberTargetKey | ShareCurrentKey | StatePartitionsKey


@struct
class ShareMemberValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = fresh(list)


@struct
class ShareGroupValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@struct
class ShareTargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


@struct
class StoredTopicPartitions:
    topic_id: Uuid = NO_ID
    partitions: list[Int32] = fresh(list)


@struct
class ShareMemberTargetValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    topic_partitions: list[StoredTopicPartitions] = fresh(list)


@struct
class ShareCurrentValue(WireMessage):
    """`state` is 0, stable: members of share groups have nothing to revoke."""

    versions = Versions(0, 0, flexible=0)

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[StoredTopicPartitions] = fresh(list)


@struct
class StateTopicPartitions:
    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class DeletedStateTopic:
    topic_id: Uuid = NO_ID
    topic_name: String = ""


@struct
class StatePartitionsValue(WireMessage):
    versions = Versions(0, 0, flexible=0)

    initializing_topics: list[StateTopicPartitions] = fresh(list)
    initialized_topics: list[StateTopicPartitions] = fresh(list)
    deleting_topics: list[DeletedStateTopic] = fresh(list)


_OF_GROUPS: dict[int, type[ShareGroupKey | ShareTargetKey | StatePartitionsKey]] = {
    ShareRecordKind.GROUP: ShareGroupKey,
    ShareRecordKind.TARGET: ShareTargetKey,
    ShareRecordKind.STATE_PARTITIONS: StatePartitionsKey,
}
_OF_MEMBERS: dict[int, type[ShareMemberKey | ShareMemberTargetKey | ShareCurrentKey]] = {
    ShareRecordKind.MEMBER: ShareMemberKey,
    ShareRecordKind.TARGET_OF_MEMBER: ShareMemberTargetKey,
    ShareRecordKind.CURRENT: ShareCurrentKey,
}


def encode_key(kind: ShareRecordKind, group_id: str, member_id: str) -> bytes:
    of_group = _OF_GROUPS.get(kind)
    key = _OF_MEMBERS[kind](group_id, member_id) if of_group is None else of_group(group_id)
    return encode(key, kind)


def decode_key(key: Buffer) -> ShareKey | None:
    """Return None for the keys of other records."""
    version = version_of(key)
    kind = _OF_GROUPS.get(version) or _OF_MEMBERS.get(version)
    return None if kind is None else decode(kind, key)
