"""The delete policy `archive-parquet:TARGET`: segments are deleted once their records are in Parquet files.

The target is a directory, or a table of Iceberg: `iceberg://CATALOG/NAMESPACE.TABLE`. Options may follow it: with
`?key=FORM&value=FORM&schema.registry.url=URL`, keys and values are archived decoded, too.

    retention.ms, retention.bytes       which segments have expired
    archive process                     writes the records of expired segments to the directory
    next check                          deletes the segments whose records are there

It stands alone in `delete.policies`: another policy would delete what is not archived. Segments wait for the end of
their transactions. The active segment is not archived, however old it is. If the archive fails, nothing is deleted.

A process does the work, one job at a time: `pylogbroker.table.archive` has the files and how they are written once.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import takewhile
from queue import SimpleQueue
from typing import Any, Final, cast
from urllib.parse import parse_qsl
from uuid import UUID

import attrs
from twisted.logger import Logger
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.extras import missing
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogFiles, LogView, SegmentView
from pylogbroker.plugins.delete_policies import RecordTimePolicy, SizePolicy

_NAME: Final = "archive-parquet"
_REMOTE: Final = "remote.storage.enable"
_COMMAND: Final = ("-P", "-m", "pylogbroker.table.archive")
_TABLE: Final = re.compile(r"iceberg://[^/]+/[^/.]+(?:\.[^/.]+)+")
_FORMS: Final = ("avro", "protobuf", "json-schema", "auto", "json")
_REGISTRY: Final = "schema.registry.url"
_OPTIONS: Final = ("key", "value", _REGISTRY)
_SEGMENTS_MAX: Final = 100  # of a job
_STDERR_CHARACTERS_MAX: Final = 1000
log = Logger()

Key = tuple[str, str, str]
"""Directory of the archive, directory of the log, topic id."""


@attrs.define(eq=False, repr=False)
class Archiver:
    """Does jobs in a thread, one after the other, each in a process of its own."""

    command: Sequence[str] = attrs.field(factory=lambda: (sys.executable, *_COMMAND))
    _archived_to: dict[Key, int] = attrs.field(factory=dict, init=False)
    _pending: set[Key] = attrs.field(factory=set, init=False)
    _jobs: SimpleQueue[tuple[Key, dict[str, Any]]] = attrs.field(factory=SimpleQueue, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    @_thread.default
    def _unstarted(self) -> threading.Thread:
        return threading.Thread(target=self._work, name=_NAME, daemon=True)

    def archived_to(self, key: Key) -> int:
        """Return the offset before which all records are in the archive; -1 before a job has found out."""
        with self._lock:
            return self._archived_to.get(key, -1)

    def request(self, key: Key, job: dict[str, Any]) -> None:
        """Do a job, unless another one of the same log is not done yet."""
        with self._lock:
            if key in self._pending:
                return
            self._pending.add(key)
            self._jobs.put((key, job))
            if self._thread.ident is None:
                self._thread.start()

    def _work(self) -> None:
        while True:
            key, job = self._jobs.get()
            try:
                outcome = self._run(job)
            except Exception as error:
                outcome = {"error": repr(error)}
            with self._lock:
                self._pending.discard(key)
                if "archived_to" in outcome:
                    self._archived_to[key] = outcome["archived_to"]
            _report(job, outcome)

    def _run(self, job: dict[str, Any]) -> dict[str, Any]:
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        )
        with process:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                return {"error": process.stderr.read().strip()[-_STDERR_CHARACTERS_MAX:] or "its process was killed"}
            outcome: dict[str, Any] = json.loads(line)
            return outcome


def _report(job: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
    where = {"topic": job["topic"], "partition": job["partition"], "root": job["root"]}
    if "error" in outcome:
        log.error(
            "{topic}-{partition} was not archived to {root}: {why}; its segments are kept, and it will be tried again",
            why=outcome["error"],
            **where,
        )
    elif outcome["files"]:
        log.info(
            "{records} records of {topic}-{partition} were archived to {root}", **where, records=outcome["records"]
        )
    if outcome.get("undecodable"):
        log.warn(
            "{count} keys and values of {topic}-{partition} could not be decoded: {root} has them as bytes, and the"
            " reasons are in its dead letters",
            count=outcome["undecodable"],
            **where,
        )
    if outcome.get("dead_letters"):
        log.warn(
            "{count} damaged batches of {topic}-{partition} are in the dead letters of {root}: no record can be read",
            count=outcome["dead_letters"],
            **where,
        )


ARCHIVER: Final = Archiver()


@implementer(IDeletePolicy)
@attrs.frozen
class ArchivePolicy:
    """Delete expired segments that are archived; archive those that are not."""

    root: str
    by_time: RecordTimePolicy
    by_size: SizePolicy
    decoding: tuple[tuple[str, str], ...] = ()
    archiver: Archiver = attrs.field(default=ARCHIVER, eq=False, repr=False)

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        expired = self._expired(log, now_ms)
        if log.is_preview:
            return expired
        if log.files is None:  # without them, nothing can be archived
            return ()
        stable = log.files.stable_offset
        ready = list(takewhile(lambda segment: segment.next_offset <= stable, expired))
        if not ready:
            return ()
        key = (self.root, log.files.directory, str(log.files.topic_id))
        archived_to = self.archiver.archived_to(key)
        missing = [segment for segment in ready if segment.next_offset > archived_to]
        if missing:
            self.archiver.request(key, self._job(log, log.files, missing[:_SEGMENTS_MAX]))
        return ready[: len(ready) - len(missing)]

    def _expired(self, log: LogView, now_ms: int) -> list[SegmentView]:
        old = list(self.by_time.deletable(log, now_ms))
        rest = attrs.evolve(log, segments=log.segments[len(old) :])
        expired = [*old, *self.by_size.deletable(rest, now_ms)]
        return list(takewhile(lambda segment: not segment.active, expired))

    def _job(self, log: LogView, files: LogFiles, segments: Sequence[SegmentView]) -> dict[str, Any]:
        return {
            "root": self.root,
            "topic": log.topic,
            "topic_id": _id_text(files.topic_id),
            "partition": log.partition,
            "directory": files.directory,
            "segments": [(segment.base_offset, segment.next_offset, segment.size) for segment in segments],
            "aborted": list(files.aborted(segments[0].base_offset, segments[-1].next_offset)),
            "decoding": dict(self.decoding),
        }


def _id_text(topic_id: UUID | None) -> str:
    return "none" if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


@implementer(IPlugin, IDeletePolicyFactory)
class ArchivePolicyFactory:
    name = _NAME

    def make(self, argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        argument, _, options = argument.partition("?")
        decoding = _decoding(options)
        if not os.path.isabs(argument) and not _TABLE.fullmatch(argument):
            raise ValueError(
                "expected the absolute path of a directory, such as archive-parquet:/var/archive, or a table of"
                " Iceberg, archive-parquet:iceberg://CATALOG/NAMESPACE.TABLE"
            )
        policies = [str(text) for text in cast("Sequence[object]", settings["delete.policies"])]
        if others := [text for text in policies if text.partition(":")[0] != _NAME]:
            raise ValueError(
                f"{others[0]} would delete segments that are not archived: {_NAME} follows retention.ms and"
                " retention.bytes, and stands alone"
            )
        if settings.get(_REMOTE):
            raise ValueError(f"segments of the topic go to a remote storage: {_REMOTE} must be false")
        if "compact" in [str(text) for text in cast("Sequence[object]", settings["cleanup.policy"])]:
            raise ValueError("compaction would remove records before they are archived: cleanup.policy must be delete")
        is_directory = os.path.isabs(argument)
        needs = {"pyarrow": "tables"} if is_directory else {"pyarrow": "iceberg", "pyiceberg": "iceberg"}
        for package, extra in needs.items():
            if find_spec(package) is None:
                raise ValueError(f"it {missing(package, extra)}")
        return ArchivePolicy(
            os.path.normpath(argument) if is_directory else argument,
            RecordTimePolicy(cast(int, settings["retention.ms"])),
            SizePolicy(cast(int, settings["retention.bytes"])),
            decoding,
        )


def _decoding(options: str) -> tuple[tuple[str, str], ...]:
    """Return the options behind a target; raise ValueError."""
    pairs = parse_qsl(options, keep_blank_values=True, strict_parsing=bool(options))
    for name, value in pairs:
        if name not in _OPTIONS:
            raise ValueError(f"there is no option {name}; expected any of {', '.join(_OPTIONS)}")
        if name != _REGISTRY and value not in _FORMS:
            raise ValueError(f"{name}={value}: expected {', '.join(_FORMS)}; the bytes are archived in any case")
    given = dict(pairs)
    if len(given) < len(pairs):
        raise ValueError("an option is given twice")
    forms = [form for name, form in pairs if name != _REGISTRY]
    if any(form != "json" for form in forms) and not given.get(_REGISTRY):
        raise ValueError(f"{forms[0]} needs {_REGISTRY}=http://HOST:8081")
    if _REGISTRY in given and not forms:
        raise ValueError(f"{_REGISTRY} needs key=FORM or value=FORM")
    return tuple(sorted(pairs))


archive_parquet = ArchivePolicyFactory()
