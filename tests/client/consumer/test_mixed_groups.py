"""Groups of our consumer and of members made of other libraries: with any leader, each partition has one reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from twisted.internet.threads import deferToThread

from pylogbroker.client import ConsumerConnector
from tests.client.consumer_harness import Collector, create
from tests.clients.members.member_process import Member
from tests.peers import available
from tests.support.brokers import Broker
from tests.support.reactor_run import wait_for

PARTITIONS = 6
WAIT_SECONDS_MAX = 25.0  # seconds
WITHOUT_JAVA = [
    ("confluent", "range"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "cooperative-sticky"),
]
WITH_JAVA = [("java-4", "range"), ("java-4", "cooperative-sticky")]
java = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")


@pytest.fixture
def start(broker: Broker, topic: str, group: str) -> Iterator[Callable[[str, str], Member]]:
    """Starts members of other libraries."""
    started: list[Member] = []

    def member(kind: str, assignor: str) -> Member:
        started.append(Member(kind, broker.bootstrap, group, topic, assignor=assignor))
        return started[-1]

    yield member
    for each in started:
        if each.process.running:
            each.crash()


@pytest.mark.parametrize(
    ("kind", "assignor"), [*WITHOUT_JAVA, *(pytest.param(*each, marks=java) for each in WITH_JAVA)]
)
async def test_any_leader(
    broker: Broker, topic: str, group: str, start: Callable[[str, str], Member], kind: str, assignor: str
) -> None:
    create(broker.bootstrap, topic, PARTITIONS)
    first = start(kind, assignor)  # it leads, until it leaves
    await until_shared([first])
    ours = ConsumerConnector(
        broker.bootstrap, group=group, partition_assignment_strategy=assignor, heartbeat_interval_ms=200
    )
    streams = await ours.create_message_streams({topic: 1})
    assigned = Collector(*streams[topic])
    await until_shared([first], ours)
    await deferToThread(first.leave)  # it may have to wait for us
    await until_shared([], ours)
    second = start(kind, assignor)  # now ours leads
    await until_shared([second], ours)
    await ours.shutdown()
    await until_shared([second])
    assert [each.called for each in assigned.done] == [True]


async def until_shared(members: Sequence[Member], ours: ConsumerConnector | None = None) -> None:
    """Until every partition has one reader, and everybody as many as the others."""

    def is_shared() -> bool:
        for each in members:
            each.update()
        held = [each.partitions for each in members]
        held += [] if ours is None else [[partition for _, partition in ours.assignment]]
        sizes = [len(each) for each in held]
        partitions = sorted(partition for each in held for partition in each)
        return partitions == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1

    await wait_for(is_shared)
