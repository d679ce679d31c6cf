"""Writers to a topic whose segments are archived as Parquet, and deleted: each record is in the archive or the log.

After each start a read across both has every offset of each partition once, with its value, while segments go on to be
archived and deleted. Some values are no JSON, so they are dead letters, also once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import duckdb
from confluent_kafka import Producer

from pylogbroker.table import read_table
from pylogbroker.table.archive.layout import DEAD_LETTERS, RECORDS
from tests.crash.checks import Violation
from tests.crash.workloads import RunContext, Topic

#: So that it is archived all the time.
SETTINGS: Final = {"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "20"}
_TOPIC: Final = "archived"
_PARTITIONS: Final = 2
_UNDECODABLE: Final = 10
"""One of so many values is no JSON."""
_RECORDS_AT_ONCE: Final = 20
_PAUSE_SECONDS: Final = 0.05
_PENDING_MAX: Final = 1000


def value_of(number: int) -> bytes:
    """Return the value of the record at an offset."""
    return b"number %d" % number if number % _UNDECODABLE == 0 else json.dumps({"number": number}).encode()


class Archiving:
    """The writers, one for each partition, and the archive."""

    over = False

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._writers: list[_Writer] = []
        self._context: RunContext | None = None

    def topics(self) -> list[Topic]:
        self._archive.mkdir(parents=True, exist_ok=True)
        configs = {
            "delete.policies": f"archive-parquet:{self._archive}?value=json",
            "segment.bytes": "8000",
            "retention.ms": "100",
        }
        return [Topic(_TOPIC, _PARTITIONS, configs, judged=False)]

    def start(self, context: RunContext) -> None:
        self._context = context
        self._writers = [_Writer(context, partition) for partition in range(_PARTITIONS)]

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        acknowledged = [writer.acknowledged for writer in self._writers]
        table = read_table(
            _TOPIC,
            bootstrap_servers=context.bootstrap,
            archive=self._archive,
            columns=["partition", "offset", "value"],
            settings={"bootstrap.connect.max.ms": "60000"},
        )
        for partition in range(_PARTITIONS):
            rows = [row for row in table.to_pylist() if row["partition"] == partition]
            where = f"{_TOPIC}-{partition}"
            yield from _check_offsets(where, [row["offset"] for row in rows], acknowledged[partition])
            for row in rows:
                if row["value"] != value_of(row["offset"]):
                    yield Violation("changed", f"{where}, offset {row['offset']}: {row['value']!r}")
        yield from self._check_dead_letters()
        if failed := [failure for writer in self._writers for failure in writer.failures]:
            yield Violation("rejected", f"{failed[0]}; {len(failed)} in all")

    def _check_dead_letters(self) -> Iterator[Violation]:
        """Check the dead letters of records that are archived; those of the next segment may be there, too."""
        archived, letters = self._offsets(RECORDS), self._offsets(DEAD_LETTERS)
        for partition in range(_PARTITIONS):
            offsets = letters.get(partition, [])
            end = max(archived.get(partition, [-1])) + 1
            if [offset for offset in offsets if offset < end] != [*range(0, end, _UNDECODABLE)]:
                yield Violation("dead letters", f"{_TOPIC}-{partition}, archived to {end}: {offsets}")

    def _offsets(self, kind: str) -> dict[int, list[int]]:
        """Return the sorted offsets of the archive's files of a kind, by partition."""
        if not list(self._archive.glob(f"{kind}/**/*.parquet")):
            return {}
        query = f"""SELECT "partition", list("offset" ORDER BY "offset")
            FROM read_parquet('{self._archive}/{kind}/**/*.parquet', union_by_name = true) GROUP BY 1"""
        relation: Any = duckdb.sql(query)
        return dict(relation.fetchall())

    def finish(self, seconds: float) -> None:
        for writer in self._writers:
            writer.ending.set()
        for writer in self._writers:
            writer.thread.join(seconds)

    def figures(self) -> dict[str, int | float]:
        archived, letters = self._offsets(RECORDS), self._offsets(DEAD_LETTERS)
        return {
            "records written to the archived topic": sum(writer.acknowledged + 1 for writer in self._writers),
            "records in the archive": sum(map(len, archived.values())),
            "files of records": len(list(self._archive.glob(f"{RECORDS}/**/*.parquet"))),
            "dead letters in the archive": sum(map(len, letters.values())),
        }


def _check_offsets(where: str, offsets: Sequence[int], acknowledged: int) -> Iterator[Violation]:
    """Check that a read has every offset once, and the last acknowledged one."""
    if list(offsets) != list(range(len(offsets))):
        first = next(index for index, offset in enumerate(offsets) if offset != index)
        yield Violation("archive", f"{where}: offset {offsets[first]} follows {offsets[:first][-1:]}")
    if len(offsets) <= acknowledged:
        yield Violation("lost", f"{where} ends at {len(offsets)}, {acknowledged} was acknowledged")


@attrs.define(slots=False)
class _Writer:
    """An idempotent producer of one partition, in a thread: the number of a record is its offset."""

    _context: RunContext
    _partition: int
    acknowledged: int = -1
    failures: list[str] = attrs.field(factory=list)
    ending: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._context.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 2000,
            "message.timeout.ms": 600_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
        }
        producer, number = Producer(settings), 0
        while not self.ending.is_set():
            for _ in range(_RECORDS_AT_ONCE):
                producer.produce(_TOPIC, value_of(number), None, self._partition, on_delivery=self._report)
                number += 1
            while not self.ending.wait(_PAUSE_SECONDS) and len(producer) > _PENDING_MAX:
                producer.poll(0)
            producer.poll(0)
        producer.flush(60)

    def _report(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        elif message.offset() != self.acknowledged + 1:
            self.failures.append(f"offset {message.offset()} was acknowledged after {self.acknowledged}")
        else:
            self.acknowledged += 1
            self._context.met("ack")
