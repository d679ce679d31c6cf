"""Records of Kafka's metadata log `__cluster_metadata`, which the controllers of a KRaft quorum write.

    value     frame version uvarint (1) | type uvarint | version uvarint | fields and tagged fields of the type
    key       null

For example, `NoOpRecord`, which an idle controller writes twice a second:

    01 14 00 00
    |  |  |  number of tagged fields
    |  |  version
    |  type 20
    frame version

Versions are those of Kafka 4.4. Which one a controller writes depends on the level of the feature `metadata.version`.
Source: the schemas in kafka-metadata's jar; `MetadataRecordSerde` for the frame.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pylogbroker.errors import CorruptRecords
from pylogbroker.wire import Buffer, MessageCodec, Versions, WireError, WireMessage
from pylogbroker.wire.primitives import read_uvarint, uvarint
from pylogbroker.wire.schema import (
    NO_ID,
    Boolean,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Since,
    String,
    Tag,
    UInt16,
    Uuid,
    fresh,
    struct,
)

_FRAME_VERSION: Final = 1
UNCHANGED_LEADER: Final = -2


class MetadataRecord(WireMessage):
    """Base class of the records; `type` is Kafka's number of each."""

    __slots__ = ()

    type: ClassVar[int]
    elements_max: ClassVar[int] = 10_000_000


class UnknownMetadataRecord(CorruptRecords):
    """A type or version that only newer releases have; its content may matter, so that it must not be skipped."""


@struct
class BrokerEndpoint:
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class FeatureRange:
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class RegisterBrokerRecord(MetadataRecord):
    """The broker epoch is the offset of this record."""

    type, versions = 0, Versions(0, 4, flexible=0)

    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[Boolean, Since(2)] = False
    incarnation_id: Uuid = NO_ID
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = fresh(list)
    features: list[FeatureRange] = fresh(list)
    rack: String | None = None
    fenced: Boolean = True
    in_controlled_shutdown: Annotated[Boolean, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Since(3), Tag(0)] = fresh(list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(4), Tag(1)] = None


@struct
class UnregisterBrokerRecord(MetadataRecord):
    type, versions = 1, Versions(0, 0, flexible=0)

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@struct
class TopicRecord(MetadataRecord):
    type, versions = 2, Versions(0, 0, flexible=0)

    name: String = ""
    topic_id: Uuid = NO_ID


@struct
class PartitionRecord(MetadataRecord):
    type, versions = 3, Versions(0, 2, flexible=0)

    partition_id: Int32 = -1
    topic_id: Uuid = NO_ID
    replicas: list[Int32] = fresh(list)
    isr: list[Int32] = fresh(list)
    removing_replicas: list[Int32] = fresh(list)
    adding_replicas: list[Int32] = fresh(list)
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[Uuid], Since(1)] = fresh(list)
    eligible_leader_replicas: Annotated[list[Int32] | None, Since(2), Tag(1)] = None
    last_known_elr: Annotated[list[Int32] | None, Since(2), Tag(2)] = None


@struct
class ConfigRecord(MetadataRecord):
    """A null value deletes the setting."""

    type, versions = 4, Versions(0, 0, flexible=0)

    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = None


@struct
class PartitionChangeRecord(MetadataRecord):
    """Fields with their default stay as they were. The leader epoch grows if `leader` is given, even unchanged.

    The partition epoch grows with each of these records.
    """

    type, versions = 5, Versions(0, 2, flexible=0)

    partition_id: Int32 = -1
    topic_id: Uuid = NO_ID
    isr: Annotated[list[Int32] | None, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = UNCHANGED_LEADER
    replicas: Annotated[list[Int32] | None, Tag(2)] = None
    removing_replicas: Annotated[list[Int32] | None, Tag(3)] = None
    adding_replicas: Annotated[list[Int32] | None, Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1
    directories: Annotated[list[Uuid] | None, Since(1), Tag(8)] = None
    eligible_leader_replicas: Annotated[list[Int32] | None, Since(2), Tag(6)] = None
    last_known_elr: Annotated[list[Int32] | None, Since(2), Tag(7)] = None


@struct
class FenceBrokerRecord(MetadataRecord):
    """Written by Kafka below 3.3 only."""

    type, versions = 7, Versions(0, 0, flexible=0)

    id: Int32 = 0
    epoch: Int64 = 0


@struct
class UnfenceBrokerRecord(MetadataRecord):
    """Written by Kafka below 3.3 only."""

    type, versions = 8, Versions(0, 0, flexible=0)

    id: Int32 = 0
    epoch: Int64 = 0


@struct
class RemoveTopicRecord(MetadataRecord):
    type, versions = 9, Versions(0, 0, flexible=0)

    topic_id: Uuid = NO_ID


@struct
class DelegationTokenRecord(MetadataRecord):
    type, versions = 10, Versions(0, 0, flexible=0)

    owner: String = ""
    requester: String = ""
    renewers: list[String] = fresh(list)
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


@struct
class UserScramCredentialRecord(MetadataRecord):
    """The mechanism is 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""

    type, versions = 11, Versions(0, 0, flexible=0)

    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


@struct
class FeatureLevelRecord(MetadataRecord):
    """Level 0 removes the feature."""

    type, versions = 12, Versions(0, 0, flexible=0)

    name: String = ""
    feature_level: Int16 = 0


@struct
class QuotaSubject:
    """A null name stands for the default of all."""

    entity_type: String = ""
    entity_name: String | None = None


@struct
class ClientQuotaRecord(MetadataRecord):
    type, versions = 14, Versions(0, 0, flexible=0)

    entity: list[QuotaSubject] = fresh(list)
    key: String = ""
    value: Float64 = 0.0
    remove: Boolean = False


@struct
class ProducerIdsRecord(MetadataRecord):
    """The first producer id behind the block that the broker got."""

    type, versions = 15, Versions(0, 0, flexible=0)

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@struct
class BrokerRegistrationChangeRecord(MetadataRecord):
    """`fenced` is 1 for fenced, -1 for unfenced, 0 for unchanged; `in_controlled_shutdown` is 1 or 0."""

    type, versions = 17, Versions(0, 3, flexible=0)

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, Since(1), Tag(1)] = 0
    log_dirs: Annotated[list[Uuid], Since(2), Tag(2)] = fresh(list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(3), Tag(3)] = None


@struct
class AccessControlEntryRecord(MetadataRecord):
    type, versions = 18, Versions(0, 0, flexible=0)

    id: Uuid = NO_ID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class RemoveAccessControlEntryRecord(MetadataRecord):
    type, versions = 19, Versions(0, 0, flexible=0)

    id: Uuid = NO_ID


@struct
class NoOpRecord(MetadataRecord):
    type, versions = 20, Versions(0, 0, flexible=0)


@struct
class ZkMigrationStateRecord(MetadataRecord):
    """0 for a cluster that never had ZooKeeper; only in Kafka 3."""

    type, versions = 21, Versions(0, 0, flexible=0)

    zk_migration_state: Int8 = 0


@struct
class RemoveUserScramCredentialRecord(MetadataRecord):
    type, versions = 22, Versions(0, 0, flexible=0)

    name: String = ""
    mechanism: Int8 = 0


@struct
class BeginTransactionRecord(MetadataRecord):
    """Records up to the end or abort of this metadata transaction become visible together, or not at all."""

    type, versions = 23, Versions(0, 0, flexible=0)

    name: Annotated[String | None, Tag(0)] = None


@struct
class EndTransactionRecord(MetadataRecord):
    type, versions = 24, Versions(0, 0, flexible=0)


@struct
class AbortTransactionRecord(MetadataRecord):
    type, versions = 25, Versions(0, 0, flexible=0)

    reason: Annotated[String | None, Tag(0)] = None


@struct
class RemoveDelegationTokenRecord(MetadataRecord):
    type, versions = 26, Versions(0, 0, flexible=0)

    token_id: String = ""


@struct
class RegisterControllerRecord(MetadataRecord):
    type, versions = 27, Versions(0, 0, flexible=0)

    controller_id: Int32 = 0
    incarnation_id: Uuid = NO_ID
    zk_migration_ready: Boolean = False
    end_points: list[BrokerEndpoint] = fresh(list)
    features: list[FeatureRange] = fresh(list)


@struct
class ClearElrRecord(MetadataRecord):
    """An empty name stands for all topics."""

    type, versions = 28, Versions(0, 0, flexible=0)

    topic_name: String = ""


@struct
class UnregisterControllerRecord(MetadataRecord):
    type, versions = 29, Versions(0, 0, flexible=0)

    controller_id: Int32 = 0


RECORDS: Final[Mapping[int, type[MetadataRecord]]] = {
    kind.type: kind
    for kind in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
        UnregisterControllerRecord,
    )
}
"""All records by type."""
_CODECS: Final[dict[tuple[int, int], MessageCodec[Any]]] = {}


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """Return the record's value in a version that it has."""
    head = b"".join(map(uvarint, (_FRAME_VERSION, record.type, version)))
    return head + _codec(type(record), version).encode(record)


def decode_record(value: Buffer) -> MetadataRecord:
    """Decode a record's value; raise CorruptRecords, UnknownMetadataRecord for a newer type or version."""
    view = memoryview(value)
    frame, number, version, at = _head(view)
    if frame != _FRAME_VERSION:
        raise UnknownMetadataRecord(f"a metadata record has frame version {frame}: only {_FRAME_VERSION} is known")
    kind = RECORDS.get(number)
    if kind is None:
        raise UnknownMetadataRecord(f"metadata records of type {number} are not known")
    if version not in kind.versions:
        raise UnknownMetadataRecord(
            f"version {version} of {kind.__name__} is not known: the newest one is {kind.versions.last}"
        )
    try:
        record: MetadataRecord = _codec(kind, version).decode(view, at)
    except WireError as problem:
        raise CorruptRecords(f"a {kind.__name__} is invalid: {problem}") from None
    return record


def record_version(value: Buffer) -> int:
    """Return the version of a record's value; raise CorruptRecords."""
    return _head(memoryview(value))[2]


def _head(view: memoryview) -> tuple[int, int, int, int]:
    """Return frame version, type and version of a record, and where its fields begin; raise CorruptRecords."""
    try:
        frame, at = read_uvarint(view, 0)
        number, at = read_uvarint(view, at)
        version, at = read_uvarint(view, at)
    except (WireError, IndexError):
        raise CorruptRecords("the head of a metadata record is not three variable-length integers") from None
    return frame, number, version, at


def _codec(kind: type[MetadataRecord], version: int) -> MessageCodec[Any]:
    key = kind.type, version
    codec = _CODECS.get(key)
    if codec is None:
        codec = _CODECS[key] = MessageCodec(kind, version)
    return codec
