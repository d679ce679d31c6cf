"""Mirrors under faults that follow from a seed, on a broker in memory and a clock of the test's own.

The broker is source and target: topics get a prefix. Requests fail, are delayed, or lose their connection before or
after they are handled, also those that commit. Other mirrors with the same name begin while one still runs, as after a
pause of its machine.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pylogbroker.mirror import copier
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.plugins.replication_policies import PrefixPolicy
from pylogbroker.testing import MemoryBroker
from pylogbroker.testing.faults import Faults

REQUESTS = ("Produce", "EndTxn", "AddPartitionsToTxn", "InitProducerId", "Fetch", "ListOffsets", "Metadata")
PARTITIONS = 3


def new_mirror(broker: MemoryBroker, **settings: Any) -> Mirror:
    one = broker.bootstrap
    given = {"commit_interval": 0.01, "refresh_interval": 0.5, "sync": None, "policy": PrefixPolicy(), **settings}
    clusters = MirroredCluster(one, "east"), MirroredCluster(one, "offline")
    return Mirror(MirrorSettings(*clusters, ("orders",), **given), broker.clock, has_standby=False)


def rows(broker: MemoryBroker, topic: str, partition: int) -> list[tuple[Any, ...]]:
    messages = broker.records(topic, isolation_level="read_committed")
    return [(row.timestamp, row.key, row.value) for row in messages if row.partition == partition]


def add_fault(faults: Faults, choose: random.Random) -> None:
    api = choose.choice(REQUESTS)
    if choose.random() < 0.5:
        faults.add(api=api, close=choose.choice(("before", "after")))
    elif choose.random() < 0.5:
        faults.add(api=api, delay=choose.random())
    else:
        faults.add(api=api, error="UNKNOWN_SERVER_ERROR" if api == "Produce" else "REQUEST_TIMED_OUT")


@pytest.mark.parametrize("seed", range(12))
def test_faults_lose_and_double_nothing(seed: int) -> None:
    choose = random.Random(seed)
    with MemoryBroker(now=1_000_000.0, latency=0.001, num_partitions=PARTITIONS) as broker:
        if seed % 2:  # transactions of Kafka before 4.0
            broker.faults.cap_versions(Produce=11, EndTxn=4)
        broker.create_topic("orders", PARTITIONS)
        mirrors = [new_mirror(broker)]
        ends = [mirrors[0].run()]
        number = 0
        for _ in range(25):
            values = [f"{number + index}" for index in range(choose.randrange(1, 20))]
            number += len(values)
            broker.produce("orders", *values)
            for _ in range(choose.randrange(3)):
                add_fault(broker.faults, choose)
            broker.clock.advance(choose.random())
            if choose.random() < 0.15:
                mirrors.append(new_mirror(broker))
                ends.append(mirrors[-1].run())
                if len(mirrors) > 2:
                    broker.run(mirrors.pop(0).stop())
        broker.faults.clear()
        for mirror in mirrors[:-1]:
            broker.run(mirror.stop())
        broker.produce("orders", "last")
        broker.clock.advance(10)
        broker.run(mirrors[-1].caught_up())
        broker.run(mirrors[-1].stop())
        for ended in ends:
            ended.addErrback(lambda failure: None)
        copied = 0
        for partition in range(PARTITIONS):
            expected = rows(broker, "orders", partition)
            assert rows(broker, "east.orders", partition) == expected
            copied += len(expected)
        assert copied == number + 1


def test_transaction_begins_when_the_last_one_is_complete() -> None:
    with MemoryBroker(now=1_000_000.0, latency=0.001) as broker:
        broker.create_topic("orders", PARTITIONS)
        mirror = new_mirror(broker)
        ended = mirror.run()
        broker.produce("orders", "tea")
        broker.clock.advance(5)
        broker.run(mirror.caught_up())
        fault = broker.faults.add(api="Produce", topic="east.orders", error="CONCURRENT_TRANSACTIONS", times=3)
        broker.produce("orders", *"abcdef")
        broker.clock.advance(5)
        broker.run(mirror.caught_up())
        status = mirror.status
        assert (status.counts.records, status.trouble) == (7, "")
        assert fault.hits == 3
        broker.run(mirror.stop())
        broker.run(ended)


def test_transactions_have_a_limited_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "TRANSACTION_PARTITIONS_MAX", 10)
    with MemoryBroker(now=1_000_000.0, latency=0.001) as broker:
        broker.create_topic("orders", 24)
        for partition in range(24):
            broker.produce("orders", "tea", partition=partition)
        mirror = new_mirror(broker)
        ended = mirror.run()
        broker.clock.advance(20)
        broker.run(mirror.caught_up())
        status = mirror.status
        assert (status.counts.records, status.trouble) == (24, "")
        assert status.counts.commits >= 3
        broker.run(mirror.stop())
        broker.run(ended)
