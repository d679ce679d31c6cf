"""The reactor's part of `pylogbroker mirror`: mirrors and their progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
from twisted.internet import reactor as default_reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall
from twisted.logger import (
    FilteringLogObserver,
    ILogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    globalLogBeginner,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.cli.mirror_choice import chosen_mirrors
from pylogbroker.cli.output import escaped_lines, note
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.garbage import freeze_existing_objects
from pylogbroker.mirror.lag_table import Lag
from pylogbroker.mirror.mirror import Mirror, MirrorStatus
from pylogbroker.mirror.settings import MirrorSettings

__all__ = ["chosen_mirrors", "run"]

if TYPE_CHECKING:
    from pylogbroker.mirror import metrics
else:
    metrics = on_first_use("pylogbroker.mirror.metrics")

_PROGRESS_SECONDS: Final = 1.0
_STOPPED: Final = 1


def run(
    mirrors: Sequence[MirrorSettings],
    *,
    until_caught_up: bool,
    output: str,
    quiet: bool,
    metrics_address: str | None = None,
) -> int:
    """Run mirrors until Ctrl-C, an error, or all have caught up; return the exit status. Raise the first error."""
    reactor: Any = default_reactor
    _begin_log()
    running = [Mirror(settings, reactor) for settings in mirrors]
    if metrics_address is not None:
        metrics.listen(reactor, metrics_address, lambda: running)
    work = _Work(reactor, running, _Progress(running, output, quiet, reactor.seconds))
    reactor.callWhenRunning(work.start, until_caught_up)
    reactor.addSystemEventTrigger("before", "shutdown", work.stop)
    freeze_existing_objects()
    reactor.run()
    return work.result()


def _begin_log() -> None:
    """Show warnings and errors as lines on standard error."""

    @implementer(ILogObserver)
    def write(event: Any) -> None:
        text = formatEvent(event)
        if event.get("log_failure") is not None:
            text = f"{text}: {event['log_failure'].getErrorMessage()}"
        note(text)

    predicate = LogLevelFilterPredicate(defaultLogLevel=LogLevel.warn)
    predicate.setLogLevelForNamespace("pylogbroker.mirror", LogLevel.info)
    globalLogBeginner.beginLoggingTo(
        [FilteringLogObserver(write, [predicate])], redirectStandardIO=False, discardBuffer=False
    )


class _Work:
    def __init__(self, reactor: Any, mirrors: Sequence[Mirror], progress: _Progress) -> None:
        self._reactor = reactor
        self._mirrors = mirrors
        self._progress = progress
        self._errors: list[BaseException] = []
        self._is_ending = False

    def start(self, until_caught_up: bool) -> None:
        self._progress.start()
        runs = [mirror.run() for mirror in self._mirrors]
        for run_ in runs:
            run_.addErrback(self._failed)
        if until_caught_up:
            caught_up = DeferredList([mirror.caught_up() for mirror in self._mirrors])
            caught_up.addCallback(lambda _: self._end())
        for ended in runs:
            ended.addCallback(lambda _: self._end() if self._errors else None)

    def stop(self) -> Deferred[Any]:
        self._progress.stop()
        return DeferredList([mirror.stop() for mirror in self._mirrors])

    def result(self) -> int:
        for error in self._errors:
            raise error
        statuses = [mirror.status for mirror in self._mirrors]
        for status in statuses:
            for topic, why in status.stopped.items():
                note(f"{status.source}->{status.target}: topic {topic} is not mirrored: {why}")
        return _STOPPED if any(status.stopped for status in statuses) else 0

    def _failed(self, failure: Failure) -> None:
        if failure.value is not None:
            self._errors.append(failure.value)

    def _end(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._progress.show_last()
            self._reactor.stop()


class _Progress:
    """Progress once a second: a line that is replaced on a terminal, else a line or an object when figures change."""

    def __init__(self, mirrors: Sequence[Mirror], output: str, quiet: bool, seconds: Callable[[], float]) -> None:
        self._mirrors = mirrors
        self._is_json = output == "json"
        self._is_quiet = quiet
        self._seconds = seconds
        self._loop = LoopingCall(self._show)
        self._before: dict[str, tuple[float, int, int]] = {}
        self._shown: dict[tuple[str, str], dict[TopicPartition, Lag]] = {}
        self._last_line = ""

    def start(self) -> None:
        if not self._is_quiet:
            self._loop.start(_PROGRESS_SECONDS, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
            self.show_last()

    def show_last(self) -> None:
        """Show the last figures, those of all partitions, and end the line."""
        if self._is_quiet:
            return
        if self._is_json:
            self._shown.clear()
        self._show()
        if not self._is_json and sys.stderr.isatty():
            click.echo(err=True)

    def _show(self) -> None:
        for mirror in self._mirrors:
            status = mirror.status
            records_rate, bytes_rate = self._rates(status)
            if self._is_json:
                partitions = self._changed_partitions(status)
                self._write(json.dumps(_row(status, records_rate, bytes_rate, partitions)), sys.stdout)
            else:
                self._write(_line(status, records_rate, bytes_rate), sys.stderr)

    def _rates(self, status: MirrorStatus) -> tuple[float, float]:
        name, now = f"{status.source}->{status.target}", self._seconds()
        records, size = status.counts.records, status.counts.bytes
        at, records_before, size_before = self._before.get(name, (now - _PROGRESS_SECONDS, 0, 0))
        self._before[name] = now, records, size
        elapsed = max(now - at, 0.001)
        return (records - records_before) / elapsed, (size - size_before) / elapsed

    def _changed_partitions(self, status: MirrorStatus) -> list[dict[str, Any]]:
        """Return the partitions whose offsets are not those of the last object."""
        shown = self._shown.setdefault((status.source, status.target), {})
        lags = status.lags.partitions
        changed = [(key, lag) for key, lag in lags.items() if shown.get(key) is not lag]
        shown.clear()
        shown.update(lags)
        return [
            {"topic": topic, "partition": partition, "position": lag.next_offset, "end": lag.end, "lag": lag.records}
            for (topic, partition), lag in sorted(changed)
        ]

    def _write(self, line: str, stream: TextIO) -> None:
        is_terminal = not self._is_json and stream.isatty()
        if line == self._last_line and not is_terminal:
            return
        self._last_line = line
        if is_terminal:
            stream.write(f"\r\x1b[K{escaped_lines(line)}")
            stream.flush()
        else:
            click.echo(escaped_lines(line), file=stream)


def _row(
    status: MirrorStatus, records_rate: float, bytes_rate: float, partitions: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "source": status.source,
        "target": status.target,
        "is_active": status.is_active,
        "is_caught_up": status.is_caught_up,
        "lag": status.lag,
        "records": status.counts.records,
        "bytes": status.counts.bytes,
        "records_per_second": round(records_rate, 1),
        "bytes_per_second": round(bytes_rate),
        "topics": len(status.lags.topics),
        "partition_count": len(status.lags.partitions),
        "partitions": partitions,
        "stopped": dict(status.stopped),
        "lost": dict(status.lost),
        "trouble": status.trouble,
    }


def _line(status: MirrorStatus, records_rate: float, bytes_rate: float) -> str:
    if not (status.source and status.target):
        return status.trouble or "connects to both clusters"
    if not status.is_active:
        state = status.trouble or "stands by, or connects"
    elif status.is_caught_up:
        state = "caught up"
    else:
        state = f"lag {status.lag}"
    topics = _counted(len(status.lags.topics), "topic")
    stopped = f", {_counted(len(status.stopped), 'topic')} stopped" if status.stopped else ""
    lost = f", {_counted(sum(status.lost.values()), 'offset')} lost" if status.lost else ""
    return (
        f"{status.source}->{status.target}: {state}; {_counted(status.counts.records, 'record')} of {topics}{stopped}"
        f"{lost}, {records_rate:.0f} records/s, {bytes_rate / 1e6:.1f} MB/s"
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
