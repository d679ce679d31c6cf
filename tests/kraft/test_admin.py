"""Changes of the metadata that a member asks the controllers for, while others change it, too."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import topic_resource
from pylogbroker.wire.metadata_records import ConfigRecord
from tests.kraft.test_members import Cluster

QUICK_SECONDS = 5


def elapsed(made: Cluster, since: float) -> float:
    return made.reactor.seconds() - since


def test_a_change_ends_though_another_follows_at_once(cluster: Cluster) -> None:
    broker = cluster.start(1)
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.controller.after_change = lambda: cluster.controller.append(
        ConfigRecord(2, "orders", "retention.ms", "7"), ConfigRecord(2, "orders", "segment.ms", "9")
    )
    began = cluster.reactor.seconds()
    cluster.run(broker.controller.alter_config(topic_resource("orders"), lambda own: {**own, "retention.ms": "5"}))
    assert elapsed(cluster, began) < QUICK_SECONDS
    assert broker.metadata.topic_settings("orders") == {"retention.ms": "7", "segment.ms": "9"}


def test_a_topic_that_is_deleted_at_once_is_reported(cluster: Cluster) -> None:
    broker = cluster.start(1)
    cluster.reactor.advance(1)
    cluster.controller.after_change = lambda: cluster.controller.delete_topic("orders")
    began = cluster.reactor.seconds()
    with pytest.raises(KafkaError, match="orders") as raised:
        cluster.run(broker.controller.create_topic(NewTopic("orders", 1, 1)))
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elapsed(cluster, began) < QUICK_SECONDS


def test_a_change_is_read_though_its_controller_has_just_been_elected(cluster: Cluster) -> None:
    """A new leader does not know the high watermark at first: the end of its log is what to read."""
    broker = cluster.start(1)
    controller = cluster.controller
    controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    controller.described_high_watermark = -1
    cluster.run(broker.controller.alter_config(topic_resource("orders"), lambda own: {**own, "retention.ms": "5"}))
    assert broker.metadata.topic_settings("orders") == {"retention.ms": "5"}


def test_a_change_that_stays_unseen_is_said_to_be_made(cluster: Cluster) -> None:
    broker = cluster.start(1)
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.controller.described_high_watermark = 1_000_000
    began = cluster.reactor.seconds()
    with pytest.raises(KafkaError, match="the change is made, but this broker has not seen it yet"):
        cluster.run(broker.controller.alter_config(topic_resource("orders"), lambda own: {**own, "retention.ms": "5"}))
    assert elapsed(cluster, began) == pytest.approx(30, abs=1)
