"""Copiers that take from one topic and write to another, records and offsets in one transaction, and are killed, too.

Each crew of copiers is a group of its own, reads the same records and writes a topic of its own.  When all are copied,
several clients read what is committed, and must see every record once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Producer
from kafka.errors import KafkaError

from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.adapters.transactions import committed
from tests.clients.admin import admin_client
from tests.crash.checks import Violation, check_content
from tests.crash.copiers import Orders
from tests.crash.copies import CopiedLog, check_copies
from tests.crash.history import Partition
from tests.crash.stamps import Stamp, value_of
from tests.crash.workloads import RunContext, Topic
from tests.crash.workloads.copier_processes import CLIENTS_OF_V2, COPIER_PROGRAMS, CopierKeeper, CopierProgram
from tests.support.waiting import wait_until

#: So that transactions' and groups' logs roll and are compacted while the run lasts.
SETTINGS: Final = {
    "transaction.state.log.segment.bytes": "20000",
    "log.cleaner.backoff.ms": "500",
}
_SOURCE: Final = Topic("source", 4, {"segment.bytes": "1000000"}, judged=False)
_TARGET_PARTITIONS: Final = 3
_MOST_QUEUED: Final = 50_000  # records of the source, below what librdkafka takes at a time
_BATCH_BYTES: Final = 3000  # of the source: copiers fetch few records of each partition, and mix them in transactions
_PATIENT: Final = 5  # times as long lives a member without an instance id, for whose death the whole group waits
_START_SECONDS_MAX: Final = 120.0
_HASTE: Final = 10.0  # seconds: who gives less wants an end, whether all is copied or not
_SETTLING: Final = 120.0  # seconds until no transaction is open any more
_CLOSED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


class Copying:
    """All crews at work on `records` records."""

    def __init__(
        self,
        records: int,
        crews: Sequence[CopierProgram] = COPIER_PROGRAMS,
        *,
        most: int = 100,
        pause_ms: int = 20,
        transactions: bool = True,
    ) -> None:
        self._crews, self._most, self._pause_ms, self._transactions = crews, most, pause_ms, transactions
        shares = [len(range(index, records, _SOURCE.partitions)) for index in range(_SOURCE.partitions)]
        self._source: dict[Partition, int] = dict(zip(_SOURCE.partition_keys, shares, strict=True))
        self._logs = {crew: {key: CopiedLog() for key in _target(crew).partition_keys} for crew in crews}
        self._keepers: list[CopierKeeper] = []
        self._world: RunContext | None = None
        self.over = False  # all is copied

    def topics(self) -> list[Topic]:
        return [_SOURCE, *map(_target, self._crews)]

    def start(self, context: RunContext) -> None:
        self._world = context
        for crew in self._crews:
            for number, command in enumerate(crew.commands):
                timeout = 1 if number else _PATIENT
                orders = self._orders(context.bootstrap, crew, number)
                self._keepers.append(CopierKeeper(command(orders), crew.life_seconds * timeout, crew.ends, context))
        wait_until(self._are_all_assigned, _START_SECONDS_MAX, lambda: [each.reported for each in self._keepers])
        _fill(context.bootstrap, self._source)

    def _are_all_assigned(self) -> bool:
        """Return whether all copiers have partitions: else the first ones could copy all before others have started."""
        return bool(self._problems()) or all(keeper.reported["assigned"] for keeper in self._keepers)

    def _orders(self, bootstrap: str, crew: CopierProgram, number: int) -> Orders:
        """Orders of one copier; the first one of each crew has no instance id."""
        return Orders(
            bootstrap=bootstrap,
            name=_name(crew, number),
            group=_group(crew),
            source=_SOURCE.name,
            target=_target(crew).name,
            partitions=_TARGET_PARTITIONS,
            most=self._most,
            pause_ms=self._pause_ms,
            static=number > 0,
            transactions=self._transactions,
        )

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        for keeper in self._keepers:
            if keeper.problem:
                yield Violation("harness", f"a copier: {keeper.problem}")
        if settled:
            yield from _settle(context.bootstrap)
        for crew, logs in self._logs.items():
            for partition, log in logs.items():
                bounds = context.reader.ends(partition)
                log.read(context.reader.read(partition))
                yield from check_content(partition, log)
                yield from log.check_stable(*bounds)
            for violation in check_copies(self._source, [log.values for log in logs.values()], settled=settled):
                yield Violation(violation.kind, f"{crew.name}: {violation.what}")
            yield from self._check_epochs(crew)
        self.over = self._all_copied(context)
        if settled:
            yield from self._check_end(context)

    def _check_epochs(self, crew: CopierProgram) -> Iterator[Violation]:
        """Check that clients of transactions v2 get an epoch for each transaction."""
        same_epoch = sum((log.same_epoch for log in self._logs[crew].values()), Counter[str]())
        for number, command in enumerate(crew.commands):
            if command in CLIENTS_OF_V2 and (count := same_epoch[_name(crew, number)]):
                yield Violation("epoch", f"{_name(crew, number)}: {count} transactions in the epoch of an earlier one")

    def _all_copied(self, context: RunContext) -> bool:
        return all(found == self._source for found in self._committed(context))

    def _committed(self, context: RunContext) -> list[dict[Partition, int]]:
        """Return the offsets of the source that each group of copiers has committed."""
        return [context.reader.committed(_group(crew), list(self._source)) for crew in self._crews]

    def finish(self, seconds: float) -> None:
        assert self._world is not None
        for keeper in self._keepers:
            keeper.calm.set()
        self._let_copy_the_rest(self._world, seconds)
        for keeper in self._keepers:
            keeper.ending.set()
        for keeper in self._keepers:
            keeper.thread.join(seconds)

    def _let_copy_the_rest(self, context: RunContext, seconds: float) -> None:
        """Wait, as long as something is copied every so many seconds."""
        last, deadline = self._committed(context), time.monotonic() + seconds
        while not self._all_copied(context) and time.monotonic() < deadline and not self._problems():
            time.sleep(0.2)
            if (found := self._committed(context)) != last and seconds > _HASTE:
                last, deadline = found, time.monotonic() + seconds

    def _problems(self) -> list[str]:
        return [keeper.problem for keeper in self._keepers if keeper.problem]

    def figures(self) -> dict[str, int | float]:
        reported, killed, reasons = Counter[str](), Counter[str](), Counter[str]()
        for keeper in self._keepers:
            reported += keeper.reported.copy()  # its thread goes on
            killed += keeper.killed_at.copy()
            reasons += keeper.reasons.copy()
        found: dict[str, int | float] = {
            "copiers killed": killed.total(),
            **{f"  {stage}": count for stage, count in sorted(killed.items())},
            "transactions begun": reported["begun"],
            **{f"  {line}": count for line, count in sorted(reasons.items())},
        }
        for crew, logs in self._logs.items():
            aborted, done = (sum(log.transactions[kind] for log in logs.values()) for kind in (0, 1))
            found[f"{crew.name}: records copied"] = sum(len(log.committed) for log in logs.values())
            found[f"{crew.name}: markers of commits"] = done
            found[f"{crew.name}: records aborted"] = sum(log.aborted for log in logs.values())
            found[f"{crew.name}: markers of aborts"] = aborted
            same_epoch = sum((log.same_epoch for log in logs.values()), Counter[str]())
            for name, count in sorted(same_epoch.items()):
                found[f"{crew.name}: transactions of {name} in the epoch of an earlier one"] = count
        return found

    def _check_end(self, context: RunContext) -> Iterator[Violation]:
        for crew in self._crews:
            found = context.reader.committed(_group(crew), list(self._source))
            if found != self._source:
                yield Violation("offsets", f"{crew.name}: {found}, and the source is {self._source}")
            for partition, log in self._logs[crew].items():
                yield from _check_hanging(context, partition)
                yield from _check_readers(context, partition, log)


def _name(crew: CopierProgram, number: int) -> str:
    return f"{crew.name}-{number}"


def _group(crew: CopierProgram) -> str:
    return f"copiers-{crew.name}"


def _target(crew: CopierProgram) -> Topic:
    return Topic(f"copied-{crew.name}", _TARGET_PARTITIONS, {"segment.bytes": "200000"}, judged=False)


def _fill(bootstrap: str, source: dict[Partition, int]) -> None:
    """Write the source; the broker is not killed yet."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "batch.size": _BATCH_BYTES}
    )
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for (topic, index), count in source.items():
        for sequence in range(count):
            value = value_of(Stamp("source", topic, index, sequence), "x" * (sequence % 40))
            producer.produce(topic, value, str(sequence), index, on_delivery=delivered)
            while len(producer) > _MOST_QUEUED:
                producer.poll(1)
    if producer.flush(60) or failed:
        raise RuntimeError(f"the source could not be written: {failed[:1]}")


def _settle(bootstrap: str) -> Iterator[Violation]:
    """Wait until all transactions are over: their ends are answered before markers are everywhere."""
    deadline = time.monotonic() + _SETTLING
    while open_ones := _open_transactions(bootstrap):
        if time.monotonic() > deadline:
            yield Violation("hanging", f"transactions: {open_ones}")
            return
        time.sleep(0.1)


def _open_transactions(bootstrap: str) -> dict[str, str]:
    """Transactional ids in a transaction, and in which state; both ways to ask must agree on who is not."""
    try:
        with admin_client(bootstrap) as admin:
            listed = [each.transactional_id for some in admin.list_transactions().values() for each in some]
            described = admin.describe_transactions(listed) if listed else {}
    except KafkaError as error:  # a coordinator may still load them
        return {"all": repr(error)}
    return {name: one.state.value for name, one in described.items() if one.state.value not in _CLOSED}


def _check_hanging(context: RunContext, partition: Partition) -> Iterator[Violation]:
    """No transaction keeps readers of committed records from the end."""
    stable, end = context.reader.ends(partition)
    if stable != end:
        yield Violation("hanging", f"{partition[0]}-{partition[1]} ends at {end} and is stable up to {stable}")


def _check_readers(context: RunContext, partition: Partition, log: CopiedLog) -> Iterator[Violation]:
    expected = log.values
    for client in (Confluent(), KafkaPython(), AioKafka()):
        found = committed(client, context.bootstrap, *partition)
        if found != expected:
            what = f"{client.name} reads {len(found)} records, {len(expected)} are committed by markers"
            yield Violation("readers", f"{partition[0]}-{partition[1]}: {what}")
