"""An archive as a table of Iceberg: each record once, whatever fails, and damaged batches beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction

from pylogbroker.records import Record, build
from pylogbroker.table import TableError
from pylogbroker.table.archive import iceberg
from pylogbroker.table.archive.iceberg_archive import IcebergArchive, RowsOfPartition
from pylogbroker.table.archive.jobs import Archived, ArchiveJob
from pylogbroker.table.archive.layout import id_text
from pylogbroker.table.archive.writer import archive
from tests.support.budget import Budget
from tests.table.test_archive_writer import TIME_MS, LogOnDisk, batch

ROOT = "iceberg://local/logs.records"
TOPIC_ID = UUID(int=5)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogOnDisk:
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setattr(iceberg, "load_catalog", {"local": catalog}.__getitem__)
    made = LogOnDisk(tmp_path)
    made.catalog = catalog  # type: ignore[attr-defined]
    return made


def job(log: LogOnDisk, **others: Any) -> ArchiveJob:
    return attrs.evolve(log.job(), root=ROOT, **others)


def rows(log: LogOnDisk, table: str = "logs.records") -> list[dict[str, Any]]:
    catalog: SqlCatalog = log.catalog  # type: ignore[attr-defined]
    read: list[dict[str, Any]] = catalog.load_table(table).scan().to_arrow().sort_by("offset").to_pylist()
    return read


def offsets(log: LogOnDisk) -> list[int]:
    return [row["offset"] for row in rows(log)]


def test_records_of_segments(log: LogOnDisk) -> None:
    log.fill(2)
    assert archive(job(log)) == Archived(40, files=2, records=40)
    assert archive(job(log)) == Archived(40)
    row = rows(log)[7]
    assert (row["topic"], row["topic_id"], row["partition"], row["offset"]) == ("orders", "abc", 3, 7)
    assert (row["key"], row["value"], row["timestamp_type"]) == (b"k2", b"value 7", "CreateTime")
    assert offsets(log) == list(range(40))


def test_topics_and_partitions_share_a_table(log: LogOnDisk) -> None:
    log.fill(1)
    for topic, partition in (("orders", 0), ("orders", 1), ("clicks", 0)):
        assert archive(job(log, topic=topic, partition=partition)).archived_to == 20
    assert len(rows(log)) == 60


class Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed_at(step: int, is_before: bool) -> Iterator[None]:
    """End a job before a commit, or behind it."""
    steps, commit = count(), Transaction.commit_transaction

    def until_killed(transaction: Transaction) -> Any:
        is_due = next(steps) == step
        if is_due and is_before:
            raise Killed
        result = commit(transaction)
        if is_due:
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Transaction, "commit_transaction", until_killed)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("step", range(4))
def test_a_kill_at_any_commit_neither_loses_nor_doubles(
    log: LogOnDisk, monkeypatch: pytest.MonkeyPatch, step: int, is_before: bool
) -> None:
    damaged = batch(25, 5)[:-1] + b"\xff"
    log.fill(1)
    log.add(batch(20, 5), damaged, batch(30, 10), start=20, end=40)
    monkeypatch.setattr(iceberg, "ROWS_BYTES", 1)
    with killed_at(step, is_before):
        archive(job(log))
    assert archive(job(log)).archived_to == 40
    assert offsets(log) == [*range(25), *range(30, 40)]
    assert [row["content"] for row in rows(log, "logs.records_dead_letters")] == [damaged]


def test_a_kill_while_columns_are_added_neither_loses_nor_doubles(log: LogOnDisk, budget: Budget) -> None:
    """Two tables are made, two times columns are added, and rows and dead letters: seven commits."""
    later = ('{"a": 3, "b": "x"}', "no JSON", '{"a": 4, "c": {"d": 5}}')
    for values in (('{"a": 1}', '{"a": 2}'), later, ('{"c": {"e": 6}}',)):
        start = log.segments[-1].end if log.segments else 0
        records = [Record(start + index, TIME_MS, None, value.encode()) for index, value in enumerate(values)]
        log.add(build(records, base_offset=start), start=start, end=start + len(values))
    kills = [(step, is_before) for step in range(7) for is_before in (True, False)]
    for step, is_before in budget.some(kills, "kills"):
        name = f"logs.killed_{step}_{is_before}"
        of_json = attrs.evolve(log.job(), root=f"iceberg://local/{name}", decoding={"value": "json"})
        with killed_at(step, is_before):
            archive(of_json)
        assert archive(of_json).archived_to == 6
        decoded = [row["value_decoded"] or {} for row in rows(log, name)]
        assert [row["offset"] for row in rows(log, name)] == list(range(6))
        assert [row.get("a") for row in decoded] == [1, 2, 3, None, 4, None]
        assert [row.get("c") and row["c"].get("e") for row in decoded] == [None, None, None, None, None, 6]
        assert [row["offset"] for row in rows(log, f"{name}_dead_letters")] == [3]


def test_other_commits_in_between_are_no_conflict(log: LogOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log.fill(1)
    archive(job(log, partition=9))
    commit = Transaction.commit_transaction
    failing = iter([True, True])

    def failing_first(transaction: Transaction) -> Any:
        if next(failing, False):
            raise CommitFailedException("another commit")
        return commit(transaction)

    monkeypatch.setattr(Transaction, "commit_transaction", failing_first)
    assert archive(job(log)).records == 20
    assert len(rows(log)) == 40


def test_another_broker_that_archives_the_same_is_noticed(log: LogOnDisk) -> None:
    log.fill(1)
    target = iceberg.IcebergTarget.of(job(log))
    archive(job(log))
    with pytest.raises(TableError, match="another broker archives the same records"):
        target.append([], 0, 20)


def partition_of(log: LogOnDisk) -> RowsOfPartition:
    catalog: SqlCatalog = log.catalog  # type: ignore[attr-defined]
    return IcebergArchive(ROOT, catalog, "logs.records").partition("orders", TOPIC_ID, 3)


def read_offsets(partition: RowsOfPartition, start: int, end: int) -> list[int]:
    [archived] = partition.ranges()
    batches = partition.batches(archived, start, end, ["value"])
    return [offset for rows in batches for offset in rows["offset"].to_pylist()]


def test_ranges_are_those_between_what_was_deleted_unarchived(log: LogOnDisk) -> None:
    log.fill(5)
    for chosen in ((1, 2), (4,)):
        archive(job(log, topic_id=id_text(TOPIC_ID), segments=tuple(log.segments[number] for number in chosen)))
    ranges = partition_of(log).ranges()
    assert [(archived.start, archived.end) for archived in ranges] == [(20, 60), (80, 100)]
    assert list(partition_of(log).batches(ranges[0], 60, 80, ["value"])) == []


def test_files_that_another_tool_has_rewritten_are_read_in_order(log: LogOnDisk) -> None:
    log.fill(3)
    archive(job(log, topic_id=id_text(TOPIC_ID)))
    archive(job(log, topic_id=id_text(TOPIC_ID), partition=4))
    catalog: SqlCatalog = log.catalog  # type: ignore[attr-defined]
    table = catalog.load_table("logs.records")
    rows = table.scan().to_arrow().sort_by([("offset", "descending")])
    even = [number for number in range(rows.num_rows) if rows["offset"][number].as_py() % 2 == 0]
    table.overwrite(rows.take(even))
    table.append(rows.take([number for number in range(rows.num_rows) if number not in even]))
    assert read_offsets(partition_of(log), 0, 60) == list(range(60))
    assert read_offsets(partition_of(log), 15, 42) == list(range(15, 42))
    assert partition_of(log).first_since(TIME_MS + 33) == 33
    assert partition_of(log).first_since(TIME_MS + 60) is None


def test_a_table_without_a_start_begins_at_the_first_offset(log: LogOnDisk) -> None:
    log.fill(1)
    archive(job(log, topic_id=id_text(TOPIC_ID)))
    catalog: SqlCatalog = log.catalog  # type: ignore[attr-defined]
    with catalog.load_table("logs.records").transaction() as transaction:
        transaction.remove_properties(f"pylogbroker.start.orders.{id_text(TOPIC_ID)}.3")
    assert read_offsets(partition_of(log), 0, 20) == list(range(20))


@pytest.mark.parametrize("root", ["iceberg://local", "iceberg://local/table", "iceberg://none/a.b"])
def test_wrong_targets_are_named(log: LogOnDisk, root: str) -> None:
    log.fill(1)
    with pytest.raises(TableError, match=root):
        archive(attrs.evolve(log.job(), root=root))
