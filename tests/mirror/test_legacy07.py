"""Mirrors from a broker of Kafka 0.7, by its protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet import reactor

from pylogbroker.errors import ConfigError
from pylogbroker.mirror.mirror import Mirror, MirrorStatus
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.testing import Broker
from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker
from tests.mirror.conftest import copy_all
from tests.support.reactor_run import wait_for


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleBroker]:
    running = SimpleBroker(tmp_path_factory.mktemp("served"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def produce(served: SimpleBroker, topic: str, *messages: bytes) -> None:
    with served.connect() as connection:
        for data in messages:
            connection.sendall(message_sets.produce(topic.encode(), 0, data))
        connection.sendall(message_sets.offsets(topic.encode(), 0, -1, 1))
        assert connection.recv(100)


def mirror(served: SimpleBroker, target: Broker, *topics: str) -> Mirror:
    host, port = served.address
    source = MirroredCluster(f"simple://{host}:{port}", "old")
    settings = MirrorSettings(source, MirroredCluster(target.bootstrap, "new"), topics, commit_interval=0.0)
    return Mirror(settings, reactor, has_standby=False)


async def copy(served: SimpleBroker, target: Broker, *topics: str) -> MirrorStatus:
    return await copy_all(mirror(served, target, *topics))


async def test_messages_are_copied_once(served: SimpleBroker, target: Broker, topic: str) -> None:
    big = message_sets.message(b"x" * 50_000)
    produce(served, topic, message_sets.ONE + message_sets.ZIPPED, big, message_sets.TWO)
    status = await copy(served, target, topic)
    expected = [b"one", b"g1", b"g2", b"x" * 50_000, b"two"]
    records = target.records(topic, isolation_level="read_committed")
    assert [record.value for record in records] == expected
    assert {(record.key, record.timestamp) for record in records} == {(None, -1)}
    assert (status.counts.records, status.stopped) == (5, {})
    produce(served, topic, message_sets.ONE)
    assert (await copy(served, target, topic)).counts.records == 1
    assert [record.value for record in target.records(topic)] == [*expected, b"one"]


async def test_running_mirror_polls_for_new_messages(served: SimpleBroker, target: Broker, topic: str) -> None:
    produce(served, topic, message_sets.ONE)
    running = mirror(served, target, topic)
    ended = running.run()
    await running.caught_up()
    produce(served, topic, message_sets.TWO)
    await wait_for(lambda: running.status.counts.records == 2, 10)
    await running.stop()
    await ended
    assert [record.value for record in target.records(topic)] == [b"one", b"two"]


def test_kafka_07_is_no_target() -> None:
    settings = MirrorSettings(MirroredCluster("127.0.0.1:1", "new"), MirroredCluster("simple://127.0.0.1:1", "old"))
    with pytest.raises(ConfigError, match=r"simple://127.0.0.1:1 is not accepted: .* can only be the source"):
        Mirror(settings, reactor)


def test_topics_must_be_named() -> None:
    settings = MirrorSettings(MirroredCluster("simple://127.0.0.1:1", "old"), MirroredCluster("127.0.0.1:1", "new"))
    with pytest.raises(ConfigError, match="so name each"):
        Mirror(settings, reactor)
