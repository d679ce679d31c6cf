"""A mirror's process and its group, on a broker in memory and a clock of the test's own."""

from __future__ import annotations

import pytest

from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.plugins.replication_policies import PrefixPolicy
from pylogbroker.testing import MemoryBroker


@pytest.mark.parametrize("exactly_once", [True, False])
def test_process_that_the_group_has_lost_copies_on_if_another_one_would_fence_it(exactly_once: bool) -> None:
    with MemoryBroker(now=1_000_000.0, latency=0.001) as broker:
        broker.create_topic("orders")
        clusters = MirroredCluster(broker.bootstrap, "east"), MirroredCluster(broker.bootstrap, "offline")
        settings = MirrorSettings(
            *clusters, ("orders",), policy=PrefixPolicy(), sync=None, commit_interval=0.01, exactly_once=exactly_once
        )
        mirror = Mirror(settings, broker.clock)
        ended = mirror.run()
        broker.clock.advance(20)
        broker.run(mirror.caught_up())
        fault = broker.faults.add(api="Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
        is_active = True
        for number in range(30):
            broker.produce("orders", f"{number}")
            broker.clock.advance(0.5)
            is_active = is_active and mirror.status.is_active
        broker.run(mirror.caught_up())
        assert fault.hits == 1
        assert is_active == exactly_once
        assert mirror.status.counts.records == 30
        broker.run(mirror.stop())
        broker.run(ended)


def test_process_without_the_partition_ends_its_work() -> None:
    with MemoryBroker(now=1_000_000.0, latency=0.001) as broker:
        broker.create_topic("orders")
        clusters = MirroredCluster(broker.bootstrap, "east"), MirroredCluster(broker.bootstrap, "offline")
        settings = MirrorSettings(*clusters, ("orders",), policy=PrefixPolicy(), sync=None, commit_interval=0.01)
        mirrors = [Mirror(settings, broker.clock) for _ in range(2)]
        ends = [mirror.run() for mirror in mirrors]
        broker.clock.advance(30)
        for number in range(60):
            if number % 15 == 0:
                broker.faults.add(api="Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
            broker.produce("orders", f"{number}")
            broker.clock.advance(0.5)
        broker.clock.advance(30)
        assert sorted(mirror.status.is_active for mirror in mirrors) == [False, True]
        messages = broker.records("east.orders", isolation_level="read_committed")
        assert [int(message.value) for message in messages] == list(range(60))
        for mirror, ended in zip(mirrors, ends, strict=True):
            broker.run(mirror.stop())
            broker.run(ended)
