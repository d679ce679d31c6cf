"""The delete policy `archive-parquet`: what it deletes, what it asks to be archived, and its argument."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.parse import quote
from uuid import UUID

import attrs
import pytest
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogFiles, LogView, SegmentView
from pylogbroker.plugins import archive_parquet
from pylogbroker.plugins.archive_parquet import ArchivePolicy, Archiver
from pylogbroker.plugins.delete_policies import RecordTimePolicy, SizePolicy
from tests.support.waiting import wait_until

SETTINGS: dict[str, object] = {
    "delete.policies": ("archive-parquet:/archive",),
    "cleanup.policy": ("delete",),
    "retention.ms": 10,
    "retention.bytes": -1,
}


@attrs.define(slots=False)
class RecordedArchiver(Archiver):
    """Keeps jobs, and says what a test says."""

    done: int = -1
    jobs: list[dict[str, Any]] = attrs.field(factory=list)

    def archived_to(self, key: Any) -> int:
        return self.done

    def request(self, key: Any, job: dict[str, Any]) -> None:
        self.jobs.append(job)


def policy(archiver: Archiver, *, retention_bytes: int = -1) -> ArchivePolicy:
    return ArchivePolicy("/archive", RecordTimePolicy(10), SizePolicy(retention_bytes), archiver=archiver)


def log(stable_offset: int = 100, *, files: bool = True, is_preview: bool = False) -> LogView:
    """Return five segments of 10 records and 100 bytes, with the timestamps 0 to 4; the last one is active."""
    segments = tuple(SegmentView(10 * n, 10 * n + 10, 100, n, n, active=n == 4) for n in range(5))
    return LogView("orders", 3, segments, made_files(stable_offset) if files else None, is_preview)


def made_files(stable_offset: int) -> LogFiles:
    return LogFiles("/data/orders-3", UUID(int=5), stable_offset, lambda first, end: [(first, end)])


def bases(archiver: Archiver, view: LogView, now_ms: int = 13, **others: Any) -> list[int]:
    return [segment.base_offset for segment in policy(archiver, **others).deletable(view, now_ms)]


def test_expired_segments_are_archived_before_they_are_deleted() -> None:
    archiver = RecordedArchiver()
    assert bases(archiver, log()) == []
    [job] = archiver.jobs
    assert job == {
        "root": "/archive",
        "topic": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABQ",
        "partition": 3,
        "directory": "/data/orders-3",
        "segments": [(0, 10, 100), (10, 20, 100), (20, 30, 100)],
        "aborted": [(0, 30)],
        "decoding": {},
    }
    archiver.done = 20
    assert bases(archiver, log()) == [0, 10]
    assert archiver.jobs[1]["segments"] == [(20, 30, 100)]
    archiver.done = 30
    assert bases(archiver, log()) == [0, 10, 20]
    assert len(archiver.jobs) == 2


def test_segments_with_open_transactions_wait() -> None:
    archiver = RecordedArchiver()
    assert bases(archiver, log(stable_offset=25)) == []
    assert archiver.jobs[0]["segments"] == [(0, 10, 100), (10, 20, 100)]
    archiver.done = 30
    assert bases(archiver, log(stable_offset=25)) == [0, 10]


def test_the_active_segment_stays() -> None:
    assert bases(RecordedArchiver(done=100), log(), now_ms=1000) == [0, 10, 20, 30]


def test_sizes_count_too() -> None:
    assert bases(RecordedArchiver(done=100), log(), now_ms=0, retention_bytes=250) == [0, 10]
    assert bases(RecordedArchiver(done=100), log(), now_ms=12, retention_bytes=250) == [0, 10]


def test_a_preview_shows_what_expires_and_begins_nothing() -> None:
    archiver = RecordedArchiver()
    assert bases(archiver, log(files=False, is_preview=True)) == [0, 10, 20]
    assert archiver.jobs == []


def test_nothing_is_deleted_that_cannot_be_archived() -> None:
    archiver = RecordedArchiver(done=100)
    assert bases(archiver, log(files=False)) == []
    assert archiver.jobs == []


def test_nothing_is_begun_for_a_log_without_expired_segments() -> None:
    archiver = RecordedArchiver()
    assert bases(archiver, log(), now_ms=0) == []
    assert archiver.jobs == []


@pytest.mark.parametrize(
    ("argument", "others", "message"),
    [
        ("", {}, "expected the absolute path of a directory"),
        ("relative", {}, "expected the absolute path"),
        ("iceberg://catalog/table", {}, "or a table of Iceberg, archive-parquet:iceberg://CATALOG/NAMESPACE.TABLE"),
        ("/a", {"delete.policies": ("record-time", "archive-parquet:/a")}, "record-time would delete segments"),
        ("/a?value=avro", {}, "avro needs schema.registry.url=http://HOST:8081"),
        ("/a?schema.registry.url=http://r", {}, "schema.registry.url needs key=FORM or value=FORM"),
        ("/a?value=text", {}, "value=text: expected avro, protobuf"),
        ("/a?form=json", {}, "there is no option form; expected any of key, value, schema.registry.url"),
        ("/a?value=json&value=json", {}, "an option is given twice"),
        ("/a?value", {}, "bad query field: 'value'"),
        ("/a", {"remote.storage.enable": True}, "segments of the topic go to a remote storage"),
        ("/a", {"cleanup.policy": ("compact", "delete")}, "compaction would remove records before they are archived"),
    ],
)
def test_wrong_settings_are_rejected(argument: str, others: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        archive_parquet.archive_parquet.make(argument, {**SETTINGS, **others})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_parquet, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"it needs pyarrow, which is not installed \(extra tables\): .* install "):
        archive_parquet.archive_parquet.make("/a", SETTINGS)


def test_the_factory_provides_its_interface() -> None:
    verifyObject(IDeletePolicyFactory, archive_parquet.archive_parquet)
    made = archive_parquet.archive_parquet.make("/archive/", SETTINGS)
    verifyObject(IDeletePolicy, made)
    assert isinstance(made, ArchivePolicy)
    table = archive_parquet.archive_parquet.make("iceberg://main/logs.records", SETTINGS)
    assert isinstance(table, ArchivePolicy)
    assert table.root == "iceberg://main/logs.records"
    assert (made.root, made.by_time, made.by_size) == ("/archive", RecordTimePolicy(10), SizePolicy(-1))


def test_options_of_decoding_are_those_of_jobs() -> None:
    url = "http://user:pass%26word@registry:8081"
    argument = f"iceberg://main/logs.records?value=avro&key=json&schema.registry.url={quote(url)}"
    made = archive_parquet.archive_parquet.make(argument, SETTINGS)
    assert isinstance(made, ArchivePolicy)
    archiver = RecordedArchiver()
    list(attrs.evolve(made, archiver=archiver).deletable(log(), 13))
    assert archiver.jobs[0]["root"] == "iceberg://main/logs.records"
    assert archiver.jobs[0]["decoding"] == {"key": "json", "value": "avro", "schema.registry.url": url}


@pytest.mark.parametrize(
    ("program", "archived_to"),
    [
        ('print(\'{"archived_to": 5, "files": 1, "records": 2, "dead_letters": 1, "undecodable": 1}\')', 5),
        ('print(\'{"error": "disk full"}\')', -1),
        ("import sys; sys.exit('oh')", -1),
        ("print('nonsense')", -1),
    ],
)
def test_outcomes_of_the_process(program: str, archived_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = subprocess.Popen, list[Any]()

    def recorded(command: Any, **others: Any) -> Any:
        started.append(command)
        return start(command, **others)

    monkeypatch.setattr(archive_parquet.subprocess, "Popen", recorded)
    archiver = Archiver((sys.executable, "-c", f"input(); {program}"))
    key = ("/archive", "/data/orders-3", "id")
    assert archiver.archived_to(key) == -1
    for _ in range(2):
        archiver.request(key, {"topic": "orders", "partition": 3, "root": "/archive"})
    wait_until(lambda: not archiver._pending)
    assert archiver.archived_to(key) == archived_to
    assert len(started) == 1
