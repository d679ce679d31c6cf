"""Keys and values of the records in `__consumer_offsets`, in Kafka's format.

A key or value is an int16 version, then a struct as on the wire.

    key of     version   struct                value of   version   struct
    an offset  0, 1      `OffsetCommitKey`     an offset  0 to 4    `OffsetCommitValue`
    a group    2         `GroupMetadataKey`    a group    0 to 4    `GroupMetadataValue`

For example, the offset 7 of group `g` for partition 1 of topic `t`, committed at 1500:

    key      0001  0001 67  0001 74  00000001
             |     group    topic    partition
             version
    value    0003  0000000000000007  ffffffff  0000  00000000000005dc
             |     offset            leader    |     commit timestamp
             version                 epoch     metadata, empty

Every version is read. Key versions 1 and 2 and value version 3 are written. Offsets with an expiry get version 1, which
alone has it, but no leader epoch. A null value is a tombstone.
"""

from typing import Annotated

from pylogbroker.groups.requests import CommittedOffset
from pylogbroker.records import Buffer
from pylogbroker.wire import Versions, WireMessage
from pylogbroker.wire.schema import IGNORABLE, Bytes, Int32, Int64, Since, String, Until, fresh, struct
from pylogbroker.wire.versioned_messages import decode, encode, version_of

_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
_GROUP_VALUE_VERSION = 3

UNKNOWN_TIME = -1


@struct
class OffsetCommitKey(WireMessage):
    versions = Versions(0, 1)

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@struct
class GroupMetadataKey(WireMessage):
    versions = Versions(2, 2)

    group: String = ""


@struct
class OffsetCommitValue(WireMessage):
    """-1 is no timestamp."""

    versions = Versions(0, 4, flexible=4)

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, Since(3), IGNORABLE] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, Since(1), Until(1), IGNORABLE] = UNKNOWN_TIME


@struct
class MemberMetadata:
    """Without rebalance timeout the session timeout applies."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(3), IGNORABLE] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, Since(1), IGNORABLE] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@struct
class GroupMetadataValue(WireMessage):
    versions = Versions(0, 4, flexible=4)

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = None
    leader: String | None = None
    current_state_timestamp: Annotated[Int64, Since(2), IGNORABLE] = UNKNOWN_TIME
    members: list[MemberMetadata] = fresh(list)


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return encode(OffsetCommitKey(group_id, topic, partition), _OFFSET_KEY_VERSION)


def encode_group_key(group_id: str) -> bytes:
    return encode(GroupMetadataKey(group_id), _GROUP_KEY_VERSION)


def decode_key(key: Buffer) -> OffsetCommitKey | GroupMetadataKey | None:
    """Return None for unknown versions."""
    version = version_of(key)
    if version in OffsetCommitKey.versions:
        return decode(OffsetCommitKey, key)
    if version in GroupMetadataKey.versions:
        return decode(GroupMetadataKey, key)
    return None


def encode_offset_value(offset: CommittedOffset) -> bytes:
    expires = UNKNOWN_TIME if offset.expires is None else offset.expires
    version = _OFFSET_VALUE_VERSION if offset.expires is None else _OFFSET_VALUE_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(offset.offset, offset.leader_epoch, offset.metadata, offset.committed, expires)
    return encode(value, version)


def decode_offset_value(buffer: Buffer) -> CommittedOffset:
    value = decode(OffsetCommitValue, buffer)
    expires = None if value.expire_timestamp == UNKNOWN_TIME else value.expire_timestamp
    return CommittedOffset(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expires)


def encode_group_value(group: GroupMetadataValue) -> bytes:
    return encode(group, _GROUP_VALUE_VERSION)


def decode_group_value(buffer: Buffer) -> GroupMetadataValue:
    value = decode(GroupMetadataValue, buffer)
    if version_of(buffer) == 0:
        for member in value.members:
            member.rebalance_timeout = member.session_timeout
    return value
