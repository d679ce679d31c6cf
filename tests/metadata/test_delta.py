"""Deltas: the images that they make, and what these share."""

from __future__ import annotations

import uuid

import attrs
import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import (
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    ControllerElected,
    Delta,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
    portions,
)
from pylogbroker.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    PartitionState,
    TopicImage,
    broker_resource,
    topic_resource,
)
from pylogbroker.metadata.persistent_map import PersistentMap

STATE = PartitionState(1, (1, 2), (1, 2))


def topic(name: str, partitions: int = 1, number: int = 1) -> TopicImage:
    return TopicImage(name, uuid.UUID(int=number), PersistentMap(dict.fromkeys(range(partitions), STATE)))


def after(*changes: object) -> ClusterImage:
    return Delta(changes).apply(ClusterImage())  # type: ignore[arg-type]


def test_brokers_and_controller() -> None:
    first, again = BrokerRegistration(1, 10), BrokerRegistration(1, 20, rack="r")
    image = after(BrokerRegistered(first), BrokerRegistered(BrokerRegistration(2, 11)), ControllerElected(2))
    assert (list(image.brokers), image.brokers[1], image.controller_id) == ([1, 2], first, 2)
    image = Delta.of(BrokerRegistered(again), BrokerUnregistered(2)).apply(image)
    assert dict(image.brokers) == {1: again}


def test_a_topic_from_creation_to_deletion() -> None:
    image = after(ConfigChanged(topic_resource("t"), {"a": "1"}), TopicCreated(topic("t", 2)))
    assert image.topics["t"] == topic("t", 2)
    assert image.topic_by_id(uuid.UUID(int=1)) is image.topics["t"]
    assert (image.partition_count, image.settings(topic_resource("t"))) == (2, {"a": "1"})
    led = attrs.evolve(STATE, leader=2, leader_epoch=1, partition_epoch=1)
    image = Delta.of(PartitionsChanged("t", {1: led, 2: STATE})).apply(image)
    assert dict(image.topics["t"].partitions) == {0: STATE, 1: led, 2: STATE}
    assert image.partition_count == 3
    assert Delta.of(TopicDeleted(image.topics["t"])).apply(image) == ClusterImage()


def test_a_topic_that_is_recreated() -> None:
    image = after(
        TopicCreated(topic("t", 3, number=1)),
        ConfigChanged(topic_resource("t"), {"a": "1"}),
        TopicDeleted(topic("t", 3, number=1)),
        TopicCreated(topic("t", 1, number=2)),
    )
    assert image.topic_by_id(uuid.UUID(int=1)) is None
    assert image.topic_by_id(uuid.UUID(int=2)) == topic("t", 1, number=2)
    assert (image.partition_count, image.settings(topic_resource("t"))) == (1, {})


def test_topics_without_ids() -> None:
    old = attrs.evolve(topic("old"), id=uuid.UUID(int=0))
    image = after(TopicCreated(old), TopicCreated(attrs.evolve(old, name="older")))
    assert list(image.topics) == ["old", "older"]
    assert image.topic_by_id(old.id) is None


def test_settings_of_brokers() -> None:
    image = after(ConfigChanged(broker_resource(None), {"a": "1"}), ConfigChanged(broker_resource(5), {"a": "2"}))
    assert image.settings(broker_resource(None)) == {"a": "1"}
    assert image.settings(broker_resource(5)) == {"a": "2"}
    assert image.settings(broker_resource(6)) == {}


def test_unknown_topics() -> None:
    image = after(TopicCreated(topic("t")))
    for change in (PartitionsChanged("u", {}), TopicDeleted(topic("u"))):
        with pytest.raises(KeyError):
            Delta.of(change).apply(image)  # type: ignore[arg-type]
    with pytest.raises(KafkaError) as caught:
        image.require_topic("u")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as caught:
        image.require_topic_id(uuid.UUID(int=9))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_delta_shares_unchanged_parts() -> None:
    image = after(*(TopicCreated(topic(f"t{number:04}", 1, number + 1)) for number in range(5000)))
    image = Delta.of(TopicCreated(topic("big", 10_000, 6000))).apply(image)
    changed = attrs.evolve(STATE, leader=2, leader_epoch=1)
    following = Delta.of(PartitionsChanged("big", {777: changed})).apply(image)
    for before, now in (
        (image.topics, following.topics),
        (image.topics["big"].partitions, following.topics["big"].partitions),
    ):
        copied = {id(chunk) for chunk in now.chunks()} - {id(chunk) for chunk in before.chunks()}
        assert len(copied) == 1
    assert following.topic_names is image.topic_names
    assert following.configs is image.configs
    assert image.topics["big"].partitions[777] == STATE


def test_portions_make_the_same_changes() -> None:
    led = attrs.evolve(STATE, leader=2, leader_epoch=1, partition_epoch=1)
    before = after(TopicCreated(topic("large", 2500)), TopicCreated(topic("old", 1, 2)))
    changes = (
        TopicDeleted(topic("old", 1, 2)),
        PartitionsChanged("large", dict.fromkeys(range(2500), led)),
        *(TopicCreated(topic(f"t{number}", 300, 10 + number)) for number in range(8)),
        ConfigChanged(broker_resource(None), {"a": "1"}),
    )
    parts = list(portions(changes))
    image = before
    for part in parts:
        image = part.apply(image)
    assert image == Delta(changes).apply(before)
    assert len(parts) >= 5
    assert (
        max(len(change.partitions) for part in parts for change in part if isinstance(change, PartitionsChanged)) < 1500
    )
    assert list(portions(())) == []
