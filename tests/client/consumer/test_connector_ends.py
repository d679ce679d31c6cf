"""Connectors in the middle of something: partitions during revocation, brokers and trees that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.threads import deferToThread

from pylogbroker.client import ConsumerConnector
from pylogbroker.interfaces import Unavailable
from pylogbroker.metadata import registration
from pylogbroker.tree.embedded import EmbeddedTree
from tests.client.consumer_harness import Collector, committed, connector, create, grow, write
from tests.client.test_connector_groups import crash
from tests.support.brokers import Broker
from tests.support.reactor_run import sleep, wait_for
from tests.tree.conftest import now


async def joined(consumer: ConsumerConnector, topic: str) -> Collector:
    return Collector(*(await consumer.create_message_streams({topic: 1}))[topic])


async def test_partitions_being_revoked_can_be_committed(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, [str(number) for number in range(20)], 2)
    one = connector(broker.bootstrap, group, rebalance_wait_ms=10_000, enable_auto_commit=False)
    stream = (await one.create_message_streams({topic: 1}))[topic][0]
    held = await stream.get_many(5)
    two = connector(broker.bootstrap, group, enable_auto_commit=False)
    joining = ensureDeferred(joined(two, topic))
    await wait_for(lambda: one.assignment == frozenset())
    await one.commit_offsets()
    rest = Collector(stream)
    second = await joining
    write(broker.bootstrap, topic, ["20", "21"], 2)  # come behind repeated ones
    await wait_for(lambda: {"20", "21"} <= {*rest.values, *second.values})
    assert sorted(int(each.value) for each in [*held, *rest.messages, *second.messages]) == list(range(22))
    await one.shutdown()
    await two.shutdown()


async def test_a_broker_that_is_gone_does_not_hold_up_the_end(
    new_broker: Callable[..., Broker], topic: str, group: str
) -> None:
    broker = new_broker()
    broker.start()
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, ["a"])
    consumer = connector(broker.bootstrap, group, default_api_timeout_ms=600_000)
    collector = await joined(consumer, topic)
    await wait_for(lambda: collector.values == ["a"])
    await deferToThread(broker.kill)
    await consumer.shutdown()  # within the time of a test, before the timeout above
    assert collector.done[0].called


async def test_a_member_that_leaves_while_joining_is_not_waited_for(broker: Broker, topic: str, group: str) -> None:
    create(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, [str(number) for number in range(20)], 2)
    settings = {"session_timeout_ms": 20_000, "rebalance_wait_ms": 20_000, "partition_assignment_strategy": "range"}
    one = connector(broker.bootstrap, group, **settings)
    two = connector(broker.bootstrap, group, **settings)
    stream = (await one.create_message_streams({topic: 1}))[topic][0]
    joining = ensureDeferred(joined(two, topic))
    await wait_for(lambda: len(one.assignment) == 1 == len(two.assignment))
    await joining
    await stream.get_many(5)  # and keeps everybody waiting, since it does not come back for more
    three = connector(broker.bootstrap, group, **settings)
    others = ensureDeferred(joined(three, topic))
    await wait_for(lambda: two.assignment == frozenset() == one.assignment)
    await sleep(0.3)
    await two.shutdown()
    rest = Collector(stream)
    await wait_for(lambda: len(one.assignment) == 1 == len(three.assignment))  # less than the session's timeout
    await others
    await one.shutdown()
    await three.shutdown()
    assert rest.done[0].called


async def test_a_cooperative_member_commits_records_read_during_a_rebalance(
    broker: Broker, topic: str, group: str
) -> None:
    create(broker.bootstrap, topic, 2)
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    one, two, three = (connector(broker.bootstrap, group, **settings) for _ in range(3))
    await joined(one, topic)
    second = await joined(two, topic)
    await wait_for(lambda: len(one.assignment) == 1 == len(two.assignment))
    [mine] = two.assignment
    crash(one)
    joining = ensureDeferred(three.create_message_streams({topic: 1}))
    await wait_for(lambda: _state(two) == "joining")
    write(broker.bootstrap, topic, ["a", "b"], 2)
    await wait_for(lambda: len(second.values) == 1)
    await two.shutdown()
    assert committed(broker.bootstrap, group, topic, 2)[mine[1]] == 1
    await joining
    await three.shutdown()


def _state(consumer: ConsumerConnector) -> str:
    member = consumer.member
    return "" if member is None else member._machine.state.value


async def test_a_static_member_that_leads_again_looks_out_for_partitions(
    broker: Broker, topic: str, group: str
) -> None:
    create(broker.bootstrap, topic)
    settings = {"group_instance_id": "one", "metadata_max_age_ms": 200}
    first = connector(broker.bootstrap, group, **settings)
    await joined(first, topic)
    await first.shutdown()
    again = connector(broker.bootstrap, group, **settings)
    await joined(again, topic)
    await wait_for(lambda: len(again.assignment) == 1)
    grow(broker.bootstrap, topic, 3)
    await wait_for(lambda: len(again.assignment) == 3)
    await again.shutdown()


# -- trees that fail ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    now(registration.create_permanent_nodes(opened))
    yield opened
    now(opened.close())


async def unavailable(*args: Any) -> Any:
    raise Unavailable("/")


@pytest.mark.parametrize("when", ["before it has begun", "after that"])
async def test_a_tree_that_is_gone_does_not_keep_a_connector_from_its_end(
    broker: Broker, tree: EmbeddedTree, topic: str, group: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    create(broker.bootstrap, topic)
    consumer = ConsumerConnector(broker.bootstrap, group=group, coordination=tree)
    with monkeypatch.context() as patched:
        if when == "before it has begun":
            patched.setattr(EmbeddedTree, "get_many", unavailable)
            with pytest.raises(Unavailable):
                await consumer.create_message_streams({topic: 1})
        else:
            assigned = await joined(consumer, topic)
            patched.setattr(EmbeddedTree, "get_many", unavailable)
        await consumer.shutdown()
    if when == "after that":
        assert assigned.done[0].called
