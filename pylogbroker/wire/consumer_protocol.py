"""Subscriptions and assignments of group members as bytes, in Kafka's consumer protocol.

Each is an int16 version and the struct below. Topic `t`, with partition 2 owned since generation 5:

    0003  00000001 0001 74  ffffffff   00000001 0001 74 00000001 00000002  00000005    ffff
    |     topics            no user    owned                               generation  no rack
    version                 data

Unknown newer versions are read as the newest known one, whose fields come first.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Annotated, Final, TypeVar

from pylogbroker.interfaces import Subscription, TopicPartition
from pylogbroker.wire import Buffer, MessageCodec, Versions, WireError, WireMessage
from pylogbroker.wire.schema import IGNORABLE, Bytes, Int32, Since, String, fresh, struct
from pylogbroker.wire.versioned_messages import encode

PROTOCOL_TYPE: Final = "consumer"
NEWEST: Final = 3

_VERSION: Final = Struct(">h")
M = TypeVar("M", bound=WireMessage)


@struct
class PartitionsOfTopic:
    topic: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class ConsumerProtocolSubscription(WireMessage):
    versions = Versions(0, 3)

    topics: list[String] = fresh(list)
    user_data: Bytes | None = None
    owned_partitions: Annotated[list[PartitionsOfTopic], Since(1), IGNORABLE] = fresh(list)
    generation_id: Annotated[Int32, Since(2), IGNORABLE] = -1
    rack_id: Annotated[String | None, Since(3), IGNORABLE] = None


@struct
class ConsumerProtocolAssignment(WireMessage):
    versions = Versions(0, 3)

    assigned_partitions: list[PartitionsOfTopic] = fresh(list)
    user_data: Bytes | None = None


_SUBSCRIPTIONS: Final = tuple(MessageCodec(ConsumerProtocolSubscription, version) for version in range(NEWEST + 1))
_ASSIGNMENTS: Final = tuple(MessageCodec(ConsumerProtocolAssignment, version) for version in range(NEWEST + 1))


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Omit the instance id: JoinGroup has a field for it."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data or None,
        owned_partitions=_by_topic(subscription.owned),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return encode(message, version)


def decode_subscription(metadata: Buffer, instance_id: str | None = None) -> Subscription:
    """Raise WireError if invalid."""
    message = _decode(_SUBSCRIPTIONS, metadata)
    return Subscription(
        topics=tuple(message.topics),
        owned=_flat(message.owned_partitions),
        user_data=bytes(message.user_data or b""),
        generation=message.generation_id,
        instance_id=instance_id,
        rack=message.rack_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], version: int = NEWEST) -> bytes:
    return encode(ConsumerProtocolAssignment(_by_topic(partitions)), version)


def decode_assignment(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """Return no partitions for no bytes; raise WireError if invalid."""
    if not assignment:
        return ()
    return _flat(_decode(_ASSIGNMENTS, assignment).assigned_partitions)


def _decode(codecs: Sequence[MessageCodec[M]], buffer: Buffer) -> M:
    if len(buffer) < _VERSION.size:
        raise WireError(f"{len(buffer)} bytes are too few for {codecs[0].message.__name__}")
    (version,) = _VERSION.unpack_from(buffer)
    if version < 0:
        raise WireError(f"{codecs[0].message.__name__} has no version {version}")
    message: M = codecs[min(version, NEWEST)].decode_first(buffer, _VERSION.size)
    return message


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsOfTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [PartitionsOfTopic(topic, numbers) for topic, numbers in topics.items()]


def _flat(topics: Iterable[PartitionsOfTopic]) -> tuple[TopicPartition, ...]:
    return tuple((topic.topic, number) for topic in topics for number in topic.partitions)
