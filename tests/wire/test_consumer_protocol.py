"""Subscriptions and assignments: beside kafka-python's encoders, and bytes that members of other kinds sent."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as TheirAssignment
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as TheirSubscription

from pylogbroker.assignors import Claim, decode_generation, decode_user_data
from pylogbroker.interfaces import Subscription, TopicPartition
from pylogbroker.wire import WireError
from pylogbroker.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

names = st.text(min_size=1, max_size=5)
owned = st.sets(st.tuples(names, st.integers(0, 2**31 - 1)), max_size=6).map(lambda some: tuple(sorted(some)))
subscriptions = st.builds(
    Subscription,
    topics=st.sets(names, max_size=4).map(lambda some: tuple(sorted(some))),
    owned=owned,
    user_data=st.binary(max_size=10),
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
)


def by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    return {topic: [each for of, each in partitions if of == topic] for topic, _ in partitions}


def carried(subscription: Subscription, version: int) -> Subscription:
    """Return the fields of a subscription that a version has."""
    lost: dict[str, object] = {"owned": ()} if version < 1 else {}
    lost |= {"generation": -1} if version < 2 else {}
    lost |= {"rack": None} if version < 3 else {}
    return attrs.evolve(subscription, **lost)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(4))
@given(subscription=subscriptions)
def test_subscriptions_are_kafka_pythons(version: int, subscription: Subscription) -> None:
    pairs = TheirSubscription.TopicPartition
    theirs = TheirSubscription(
        version=version,
        topics=list(subscription.topics),
        user_data=subscription.user_data or None,
        owned_partitions=[pairs(topic=t, partitions=some) for t, some in by_topic(tuple(subscription.owned)).items()],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    ).encode()
    assert encode_subscription(subscription, version) == theirs
    assert decode_subscription(theirs) == carried(subscription, version)


@pytest.mark.parametrize("version", range(4))
@given(partitions=owned)
def test_assignments_are_kafka_pythons(version: int, partitions: tuple[TopicPartition, ...]) -> None:
    theirs = TheirAssignment(version, list(by_topic(partitions).items()), None).encode()
    assert encode_assignment(partitions, version) == theirs
    assert decode_assignment(theirs) == partitions


def test_a_version_to_come_is_read_as_the_newest() -> None:
    subscription = Subscription(("t",), (("t", 2),), b"x", 5, rack="r")
    data = encode_subscription(subscription)
    assert decode_subscription(b"\x00\x09" + data[2:] + b"more") == subscription


def test_the_instance_id_comes_from_elsewhere() -> None:
    assert decode_subscription(encode_subscription(Subscription(("t",))), "i").instance_id == "i"


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize("data", ["", "00", "ffff00000000", "000000000001", "0001000000010002"])
def test_anything_else_is_rejected(data: str) -> None:
    with pytest.raises(WireError):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(WireError):
        decode_assignment(bytes.fromhex(data) or b"\x00")


def test_bytes_of_librdkafka_are_read() -> None:
    """Two members of 2.x, with `client.rack=rack1`, on a topic of two partitions, from DescribeGroups."""
    eager = "000300000001000f7474313739353232323831373231370000000000000000ffffffff00057261636b31"
    given = "000000000001000f747431373935323232383137323137000000010000000100000000"
    assert decode_subscription(bytes.fromhex(eager)) == Subscription(("tt1795222817217",), rack="rack1")
    assert decode_assignment(bytes.fromhex(given)) == (("tt1795222817217", 1),)

    cooperative = (
        "000300000001000f74743137393532323238333934373900000021"
        "00000001000f7474313739353232323833393437390000000100000001"  # the user data: what it owns once more, since 2
        "0000000200000001000f74743137393532323238333934373900000001000000010000000200057261636b31"
    )
    read = decode_subscription(bytes.fromhex(cooperative))
    topic = "tt1795222839479"
    assert attrs.evolve(read, user_data=b"") == Subscription((topic,), ((topic, 1),), generation=2, rack="rack1")
    assert decode_generation(read.user_data) == 2
    assert decode_user_data(read.user_data) == Claim(((topic, 1),), 2)
    with_user_data = "00000001000f747431373935323232383339343739000000010000000100000002"
    given = "000000000001000f74743137393532323238333934373900000001000000010000002100" + with_user_data[2:]
    assert decode_assignment(bytes.fromhex(given)) == ((topic, 1),)
