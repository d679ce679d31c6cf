"""Copiers that take from one topic and write to another, records and offsets in one transaction, and are killed, too.

Each crew of copiers is a group of its own, reads the same records and writes a topic of its own.  When all are copied,
several clients read what is committed, and must see every record once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.transactions import committed
from tests.clients.admin import admin_client
from tests.crash.checks import Violation, check_content
from tests.crash.copiers import Orders
from tests.crash.copies import CopiedLog, check_copies
from tests.crash.history import Partition
from tests.crash.reader import Unreadable
from tests.crash.stamps import Stamp, value_of
from tests.crash.workloads import Topic, World
from tests.crash.workloads.crews import CREWS, Crew, Keeper

#: So that transactions' and groups' logs roll and are compacted while the run lasts.
SETTINGS: Final = {
    "transaction.state.log.segment.bytes": "20000",
    "log.cleaner.backoff.ms": "500",
}
_SOURCE: Final = Topic("source", 4, {"segment.bytes": "1000000"}, judged=False)
_TARGET_PARTITIONS: Final = 3
_LONGEST: Final = 300.0  # seconds for what is left to be copied when nothing is killed any more
_CLOSED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


class Copying:
    """All crews at work on `records` records."""

    def __init__(
        self, records: int, crews: Sequence[Crew] = CREWS, *, most: int = 200, pause_ms: int = 20, transactions: bool = True
    ) -> None:
        self._crews, self._most, self._pause_ms, self._transactions = crews, most, pause_ms, transactions
        shares = [len(range(index, records, _SOURCE.partitions)) for index in range(_SOURCE.partitions)]
        self._source: dict[Partition, int] = dict(zip(_SOURCE.partition_keys, shares, strict=True))
        self._logs = {crew: {key: CopiedLog() for key in _target(crew).partition_keys} for crew in crews}
        self._keepers: list[Keeper] = []
        self._world: World | None = None
        self.over = False  # all is copied

    def topics(self) -> list[Topic]:
        return [_SOURCE, *map(_target, self._crews)]

    def start(self, world: World) -> None:
        self._world = world
        _fill(world.bootstrap, self._source)
        for crew in self._crews:
            for number, command in enumerate(crew.commands):
                orders = Orders(
                    bootstrap=world.bootstrap,
                    name=f"{crew.name}-{number}",
                    group=_group(crew),
                    source=_SOURCE.name,
                    target=_target(crew).name,
                    partitions=_TARGET_PARTITIONS,
                    most=self._most,
                    pause_ms=self._pause_ms,
                    static=number == 0,
                    transactions=self._transactions,
                )
                self._keepers.append(Keeper(command(orders), crew.life_seconds, world))

    def check(self, world: World, *, settled: bool) -> Iterator[Violation]:
        for keeper in self._keepers:
            if keeper.problem:
                yield Violation("harness", f"a copier: {keeper.problem}")
        for crew, logs in self._logs.items():
            for partition, log in logs.items():
                log.read(world.reader.read(partition))
                yield from check_content(partition, log)
            for violation in check_copies(self._source, [log.values for log in logs.values()], settled=settled):
                yield Violation(violation.kind, f"{crew.name}: {violation.what}")
        self.over = self._all_copied(world)
        if settled:
            yield from self._check_end(world)

    def _all_copied(self, world: World) -> bool:
        return all(world.reader.committed(_group(crew), list(self._source)) == self._source for crew in self._crews)

    def finish(self, seconds: float) -> None:
        assert self._world is not None
        for keeper in self._keepers:
            keeper.calm.set()
        deadline = time.monotonic() + _LONGEST
        while not self._all_copied(self._world) and time.monotonic() < deadline and not self._problems():
            time.sleep(0.2)
        for keeper in self._keepers:
            keeper.ending.set()
        for keeper in self._keepers:
            keeper.thread.join(seconds)

    def _problems(self) -> list[str]:
        return [keeper.problem for keeper in self._keepers if keeper.problem]

    def figures(self) -> dict[str, int | float]:
        told, killed = Counter[str](), Counter[str]()
        for keeper in self._keepers:
            told += keeper.told
            killed += keeper.killed_at
        found: dict[str, int | float] = {
            "copiers killed": killed.total(),
            **{f"  {stage}": count for stage, count in sorted(killed.items())},
            "copiers that found themselves fenced": told["fenced"],
            "transactions begun": told["begun"],
            "transactions given up by copiers": told["aborted"],
        }
        for crew, logs in self._logs.items():
            aborted, done = (sum(log.transactions[kind] for log in logs.values()) for kind in (0, 1))
            found[f"{crew.name}: records copied"] = sum(len(log.committed) for log in logs.values())
            found["  in committed transactions' shares of partitions"] = done
            found[f"{crew.name}: records aborted"] = sum(log.aborted for log in logs.values())
            found[f"{crew.name}: aborted shares"] = aborted
        return found

    def _check_end(self, world: World) -> Iterator[Violation]:
        for crew in self._crews:
            found = world.reader.committed(_group(crew), list(self._source))
            if found != self._source:
                yield Violation("offsets", f"{crew.name}: {found}, and the source is {self._source}")
            for partition, log in self._logs[crew].items():
                yield from _check_readers(world, partition, log)
        yield from _check_transactions(world.bootstrap, [(crew, len(crew.commands)) for crew in self._crews])


def _group(crew: Crew) -> str:
    return f"copiers-{crew.name}"


def _target(crew: Crew) -> Topic:
    return Topic(f"copied-{crew.name}", _TARGET_PARTITIONS, {"segment.bytes": "200000"}, judged=False)
