"""Sending of lines as they are read.

Each read of the input is cut into lines, which leave at once, in lots. Reading pauses while too much is unacknowledged,
so that memory is bounded however long the input is.

| event                      | reading | then                                                              |
|----------------------------|---------|-------------------------------------------------------------------|
| the input ends             | ends    | the last line is sent, also without LF                            |
| SIGINT, SIGTERM, SIGHUP    | ends    | lines that were read are sent; a line that is incomplete is not   |
| a line or a record fails   | ends    | lines before it are sent                                          |
| a second signal            | -       | the command ends without waiting                                  |
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, Self

import attrs
import click

from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.line_records import Columnize, LineRecords, LineRejected, Target
from pylogbroker.cli.output import note
from pylogbroker.errors import ConfigError, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pylogbroker.cli import batch_producer
    from pylogbroker.client import errors as client_errors
    from pylogbroker.client import producer as client_producer
    from pylogbroker.client import settings as client_settings
    from pylogbroker.client import sync
    from pylogbroker.client.producer import validation
else:
    batch_producer = on_first_use("pylogbroker.cli.batch_producer")
    client_errors = on_first_use("pylogbroker.client.errors")
    client_producer = on_first_use("pylogbroker.client.producer")
    client_settings = on_first_use("pylogbroker.client.settings")
    sync = on_first_use("pylogbroker.client.sync")
    validation = on_first_use("pylogbroker.client.producer.validation")

_READ_BYTES: Final = 1 << 18
_LOT_RECORDS: Final = 5000  # so that the reactor is not held up
_UNACKNOWLEDGED_BYTES_MAX: Final = 4 << 20
_RECORD_BYTES: Final = 256  # what a record costs besides its line
_LINGER_MS: Final = 5
_LINE_FACTOR: Final = 8  # a line of JSON may be longer than its record
_REPORT_SECONDS: Final = 1.0  # without an acknowledgement, until the reason is reported
_POLL_SECONDS: Final = 0.25
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class WaitEnder:
    """Ends of waits in `select`, by signals and other threads."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.signals = 0
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()

    def wake(self) -> None:
        with suppress(OSError):  # full: the wait ends anyway; closed: nobody waits
            self._sender.send(b"\0")

    def wait(self, files: list[int], seconds: float | None) -> bool:
        """Wait for a file to be readable, or to be woken; return whether a file is readable."""
        readable = select.select([*files, self._receiver.fileno()], [], [], seconds)[0]
        if self._receiver.fileno() in readable:
            self._receiver.recv(1 << 16)
        return any(file in readable for file in files)

    @contextmanager
    def of_signals(self) -> Iterator[None]:
        """Count signals instead of being ended by them; those that are ignored stay ignored."""
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        before = {}
        try:
            for number in numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._handle)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        self.signal = self.signal or number
        self.signals += 1
        self.wake()


class LineSplitter:
    """Cuts chunks into lines that end with LF; without `separator`, all chunks are one line.

    Raises ConfigError for a line of more than `longest` bytes, so that memory is bounded.
    """

    def __init__(self, separator: bytes | None, longest: int) -> None:
        self._separator = separator
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Return the bytes of the line that is incomplete."""
        return self._size

    def lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that the chunk completes."""
        first, *others = [chunk] if self._separator is None else chunk.split(self._separator)
        self._keep(first)
        if not others:
            return []
        completed = [self._take(), *others]
        self._keep(completed.pop())
        return completed

    def last(self) -> list[bytes]:
        """Return the line that has no LF, at the end of the input."""
        return [self._take()] if self._size or self._separator is None else []

    def check(self) -> None:
        if self._size > self._longest:
            raise ConfigError(
                f"{self._size} bytes without an end of line are more than a record may have:"
                " raise max.request.size with -X, if this is one record"
            )

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


class LineProducer(Protocol):
    """Sends columns of records; `trouble` says why they are not acknowledged now."""

    @property
    def trouble(self) -> str: ...

    def submit(self, columns: LineRecords) -> Future[Any]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: Any) -> object: ...


class PluginProducer:
    """A producer for settings that name plugins, such as a partitioner; each record costs several times more."""

    def __init__(self, target: Target, producer: sync.Producer) -> None:
        self._target = target
        self._producer = producer

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._producer.__exit__(*raised)

    @property
    def trouble(self) -> str:
        return self._producer.trouble

    def submit(self, columns: LineRecords) -> Future[Any]:
        topic, partition, fixed = self._target.topic, self._target.partition, self._target.headers
        return self._producer.submit_many(
            [
                client_producer.ProducerRecord(topic, value, key, partition, timestamp, (*own, *fixed))
                for key, value, own, timestamp in columns.rows()
            ]
        )


@attrs.frozen(eq=False, repr=False)
class Lot:
    """Records that were sent together: those of lines from number `first` on."""

    first: int
    count: int
    size: int
    future: Future[Any]


class Abandoned(Exception):
    """A second signal ended the wait for acknowledgements."""


class LineSender:
    """Sends the lines of a file to a topic.

    `columns_of` makes records of lines. It may raise LineRejected: the lines before are sent. With `whole`, the file is
    one line.
    """

    def __init__(
        self,
        target: Target,
        file: BinaryIO,
        columns_of: Columnize,
        connection: Connection,
        *,
        whole: bool = False,
        clock: Callable[[], float] = time.monotonic,
        make_wait_ender: Callable[[], WaitEnder] = WaitEnder,
    ) -> None:
        self._target = target
        self._file = file
        self._fd = _descriptor(file)
        self._columns_of = columns_of
        self._connection = connection
        self._seconds = connection.seconds
        self._settings = {
            "linger.ms": _LINGER_MS,
            **validation.merged_settings(connection.settings(client_settings.PRODUCER), {}),
        }
        values = client_settings.read(client_settings.PRODUCER, self._settings)
        self._unacknowledged_max = min(_UNACKNOWLEDGED_BYTES_MAX, values.integer("buffer.memory") // 2)
        self._splitter = LineSplitter(None if whole else b"\n", _LINE_FACTOR * values.integer("max.request.size"))
        self._clock = clock
        self._wait_ender = make_wait_ender()
        self._lots: deque[Lot] = deque()
        self._unacknowledged = 0  # bytes
        self._read = 0  # lines
        self._written = 0  # records
        self._problem: Exception | None = None
        self._progress_at = 0.0
        self._reported: set[str] = set()

    def run(self) -> int:
        """Return the exit status: 0, or 128 and the number of the signal that ended the reading. Raise the error."""
        try:
            with (
                self._wait_ender.of_signals(),
                self._connection.explained(),
                self._make_producer() as producer,
            ):
                self.send(producer)
        except Abandoned:
            pass  # reported
        finally:
            self._wait_ender.close()
        return 0 if self._wait_ender.signal is None else 128 + self._wait_ender.signal

    def _make_producer(self) -> LineProducer:
        """Return the producer that costs least with these settings."""
        if not batch_producer.UNSUPPORTED & self._settings.keys():
            return batch_producer.BatchProducer(self._target, self._settings)
        return PluginProducer(self._target, sync.Producer(settings=self._settings, timeout=self._seconds))

    def send(self, producer: LineProducer) -> None:
        """Send all lines; report how many records were written, also before an error."""
        try:
            self._send(producer)
        finally:
            self._report()

    def _send(self, producer: LineProducer) -> None:
        has_more = True
        while has_more and self._problem is None and self._wait_ender.signal is None:
            has_space = self._unacknowledged <= self._unacknowledged_max
            if self._wait(producer, for_input=has_space) and has_space and self._wait_ender.signal is None:
                has_more = self._read_once(producer)
            self._settle()
        while self._lots:
            if self._wait_ender.signals > 1:
                raise Abandoned
            self._wait(producer, for_input=False)
            self._settle()
        if self._problem is not None:
            raise self._problem

    def _wait(self, producer: LineProducer, *, for_input: bool) -> bool:
        """Wait for input, an acknowledgement or a signal; return whether there is input."""
        files = [self._fd] if for_input and self._fd is not None else []
        is_ready = for_input and self._fd is None
        has_input = self._wait_ender.wait(files, 0 if is_ready else _POLL_SECONDS if self._lots else None)
        if self._lots:
            self._check_progress(producer)
        return has_input or is_ready

    def _read_once(self, producer: LineProducer) -> bool:
        """Send what one read brings; return False at the end of the input."""
        try:
            chunk = self._file.read(_READ_BYTES) if self._fd is None else os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            self._problem = error
            return False
        try:
            lines = self._splitter.lines(chunk) if chunk else self._splitter.last()
            for start in range(0, len(lines), _LOT_RECORDS):
                self._send_lot(producer, lines[start : start + _LOT_RECORDS])
            self._splitter.check()
        except PylogbrokerError as error:
            self._problem = error
        return bool(chunk)

    def _send_lot(self, producer: LineProducer, lines: list[bytes]) -> None:
        rejected: LineRejected | None = None
        try:
            columns = self._columns_of(lines)
        except LineRejected as error:
            columns, rejected = error.before, error
        if len(columns):
            self._submit(producer, columns, sum(map(len, lines)) + _RECORD_BYTES * len(lines))
        if rejected is not None:
            raise ConfigError(f"line {self._read + len(columns) + 1}: {rejected}") from rejected
        self._read += len(lines)

    def _submit(self, producer: LineProducer, columns: LineRecords, size: int) -> None:
        if not self._lots:
            self._progress_at = self._clock()
        lot = Lot(self._read + 1, len(columns), size, producer.submit(columns))
        self._lots.append(lot)
        self._unacknowledged += size
        lot.future.add_done_callback(lambda _: self._wait_ender.wake())

    def _settle(self) -> None:
        """Count what has been acknowledged, in order; keep the first error."""
        while self._lots and self._lots[0].future.done():
            lot = self._lots.popleft()
            self._unacknowledged -= lot.size
            self._progress_at = self._clock()
            self._reported.clear()
            error = lot.future.exception()
            if isinstance(error, client_producer.SomeFailed):
                failures = [
                    (at, result) for at, result in enumerate(error.results) if isinstance(result, BaseException)
                ]
                self._written += len(error.results) - len(failures)
                at, first = failures[0]
                self._problem = self._problem or _at_line(lot.first + at, first, len(failures))
            elif error is not None:
                self._problem = self._problem or _of_lot(lot, error)
            else:
                self._written += len(lot.future.result())

    def _check_progress(self, producer: LineProducer) -> None:
        """Report why nothing is acknowledged; raise TimedOut after the connection's timeout."""
        waited = self._clock() - self._progress_at
        if waited < _REPORT_SECONDS or self._lots[0].future.done():
            return
        trouble = producer.trouble
        if waited >= self._seconds:
            raise sync.TimedOut(
                f"no record was acknowledged for {self._seconds:g} s (--timeout){f': {trouble}' if trouble else ''}"
            )
        if trouble and trouble not in self._reported:
            self._reported.add(trouble)
            note(f"{trouble}: trying again")

    def _report(self) -> None:
        click.echo(f"Wrote {self._written} record{'s' * (self._written != 1)} to {self._target.topic}.", err=True)
        if self._lots:
            lines = f"from {self._lots[0].first} to {self._read}"
            click.echo(f"Records of lines {lines} were not acknowledged: they may or may not be written.", err=True)
        if self._wait_ender.signal is not None and self._splitter.size:
            click.echo(f"The last line was incomplete and not sent: {counted(self._splitter.size, 'byte')}.", err=True)


def _descriptor(file: BinaryIO) -> int | None:
    """Return the number of the open file; None for one in memory."""
    try:
        return file.fileno()
    except OSError:
        return None


def _of_lot(lot: Lot, error: BaseException) -> PylogbrokerError:
    if isinstance(error, client_errors.NeverReached):
        return error  # no line's fault
    return _placed(error, f"{_lines(lot.first, lot.first + lot.count - 1)}: {error}")


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _at_line(number: int, error: BaseException, count: int) -> PylogbrokerError:
    others = f"; {counted(count - 1, 'later record')} failed, too" if count > 1 else ""
    return _placed(error, f"line {number}: {error}{others}")


def _placed(error: BaseException, text: str) -> PylogbrokerError:
    return KafkaError(text, error.code) if isinstance(error, KafkaError) else PylogbrokerError(text)
