"""Moves logs between the log directories of this broker (KIP-113), one log after the other.

    step                          thread   on the disk                                    a kill now: the next start
    ----------------------------  -------  ---------------------------------------------  ----------------------------
    make the copy                 worker   <new>/t_0-future with the file `moved`         begins the copy again
    copy records, sync            worker   the copy grows                                 begins the copy again
    copy the rest, rename, adopt  reactor  <new>/t_0 with `moved`, and <old>/t_0          drops <old>/t_0
    sync the new directory        reader   the same                                       drops <old>/t_0
    rename the old log            reader   <new>/t_0, and <old>/t_0.<random>-delete       removes the latter
    remove `moved` and old files  reader   <new>/t_0

The rest is copied while nothing else runs, so the copy has all records when it takes the log's place. The log's syncs
wait for that of the new directory: what they promise must be found there.

A copy begins again if its log was cut meanwhile. It ends if the replica is stopped, or a directory fails.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.replication.throttle import ReplicationThrottle
from pylogbroker.storage import FileRegion, Log, LogDirectory, LogManager, NotCached, Origin
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.logdirs.log_copies import LogCopies

_CHUNK_BYTES: Final = 1 << 20
_REST_BYTES_MAX: Final = 256 * 1024  # copied on the reactor thread
_RETRY_SECONDS: Final = 0.1
_WAIT_SECONDS_MAX: Final = 1.0
log = Logger()


class MoveAbandoned(Exception):
    """The log is not to be moved any more, or its copy is useless."""


@attrs.define(eq=False, repr=False)
class LogMoves:
    _runtime: Runtime
    _partitions: Partitions
    _logs: LogManager
    _throttle: ReplicationThrottle
    _is_cleaning: Callable[[Log], bool]
    copy: Log | None = attrs.field(default=None, init=False)
    """The copy that grows now."""
    _copies: LogCopies = attrs.field(init=False)
    _wanted: dict[TopicPartition, str] = attrs.field(factory=dict, init=False)
    _is_running: bool = attrs.field(default=False, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._copies = LogCopies(self._logs)
        self._partitions.on_opened.append(self._start)
        self._partitions.on_log_deleted.append(self._forget)

    def start(self) -> None:
        """Begin the moves again that the last stop interrupted."""
        self._wanted.update(self._logs.interrupted_moves)
        self._start()

    def stop(self) -> None:
        """Leave a copy as it is: the next start begins it again."""
        self._is_stopped = True

    def move(self, key: TopicPartition, path: str) -> None:
        """Let a log be moved to a directory; raise KafkaError. It may be there already, or be moved elsewhere now."""
        home = next((directory for directory in self._logs.directories if directory.path == path), None)
        if home is None:
            raise KafkaError(f"{path} is not in log.dirs", ErrorCode.LOG_DIR_NOT_FOUND)
        if home.failure or key in self._logs.offline:
            raise StorageFailure(home.failure or self._logs.offline[key])
        partition = self._partitions.hosted.get(key)
        if partition is None:
            self._logs.preferred[key] = path
            raise KafkaError(f"{key[0]}-{key[1]} has no replica here yet", ErrorCode.REPLICA_NOT_AVAILABLE)
        if partition.log.byte_addressed:
            detail = "logs of the format 0.7 are not moved"
            raise KafkaError(detail, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        self._wanted[key] = path
        self._start()

    def _forget(self, deleted: Log) -> None:
        """Forget the move of a log that goes: another topic of its name may come."""
        self._wanted.pop((deleted.topic, deleted.partition), None)

    def _start(self) -> None:
        if self._wanted and not self._is_running and not self._is_stopped:
            self._is_running = True
            self._runtime.deferred_actions.defer(self._begin)

    def _begin(self) -> None:
        run_in_background(log, self._run(), "logs are not moved")

    async def _run(self) -> None:
        try:
            while (key := self._next()) is not None and not self._is_stopped:
                await self._move(key)
        finally:
            self._is_running = False

    def _next(self) -> TopicPartition | None:
        """Return a log to move that is open; forget those that are where they should be."""
        for key, path in tuple(self._wanted.items()):
            partition = self._partitions.hosted.get(key)
            if partition is not None and self._logs.home(partition.log).path != path:
                return key
            if partition is not None:
                del self._wanted[key]
        return None

    async def _move(self, key: TopicPartition) -> None:
        path = self._wanted[key]
        partition, home = self._partitions.hosted[key], self._logs.directories.at(path)
        move = _Move(self, key, path, partition)
        log.info("moves {topic}-{partition} to {path}", topic=key[0], partition=key[1], path=path)
        try:
            self.copy = copy = await self._runtime.in_thread(
                self._copies.begin, partition.log, home, self._runtime.now_ms()
            )
            await self._fill(move, copy)
            await self._finish(move, copy)
        except MoveAbandoned:
            await self._discard()
        except (OSError, KafkaError) as error:
            log.error(
                "{topic}-{partition} is not moved to {path}: {why}",
                topic=key[0],
                partition=key[1],
                path=path,
                why=error,
            )
            failed = self.copy
            await self._discard()
            self._wanted.pop(key, None)
            self._check(home, failed, error)
        finally:
            self.copy = None

    async def _discard(self) -> None:
        if self.copy is not None and not self._is_stopped:
            await self._runtime.in_thread(self._copies.discard, self.copy)

    def _check(self, home: LogDirectory, copy: Log | None, error: OSError | KafkaError) -> None:
        """Take the new directory offline if its disk failed."""
        code = error.errno if isinstance(error, OSError) else copy.failure_errno if copy is not None else 0
        if code and home.is_lost_to(OSError(code, "")):
            self._partitions.directory_failed(home.path, str(error))

    async def _fill(self, move: _Move, copy: Log) -> None:
        """Copy records until few are missing."""
        runtime = self._runtime
        while True:
            move.check()
            now_ms = runtime.now_ms()
            source = move.partition.log
            if copy.log_end_offset < source.local_start_offset:
                await runtime.in_thread(copy.restart_at, source.local_start_offset, now_ms)
            wait_ms = self._throttle.wait_ms(now_ms)
            if wait_ms:
                await deferLater(runtime.clock, min(wait_ms / 1000, _WAIT_SECONDS_MAX))
                continue
            region = await self._read(source, copy.log_end_offset)
            if region is None or len(region) < _REST_BYTES_MAX:
                return
            self._throttle.record(len(region), now_ms)
            await runtime.in_thread(_append, copy, region, now_ms)

    async def _read(self, source: Log, offset: int) -> FileRegion | None:
        try:
            return source.read(offset, _CHUNK_BYTES, upto=source.log_end_offset, may_wait=False)
        except NotCached as missing:
            await self._runtime.in_reading_thread(missing.region.read)
            return source.read(offset, _CHUNK_BYTES, upto=source.log_end_offset)

    async def _finish(self, move: _Move, copy: Log) -> None:
        """Sync the copy; then let it take the log's place."""
        runtime, source = self._runtime, move.partition.log
        while True:
            await runtime.in_thread(copy.sync)
            move.check()
            if not self._is_cleaning(source) and not source.is_swapping and source.hold_syncs():
                try:
                    former = self._adopt(source, copy)
                except BaseException:
                    source.release_syncs()
                    raise
                if former is not None:
                    break
                source.release_syncs()
                await self._fill(move, copy)
            else:
                await deferLater(runtime.clock, _RETRY_SECONDS)
        self.copy = None
        # Syncs that wait for it may occupy all other threads.
        try:
            await runtime.in_reading_thread(self._copies.finish, source, former)
        except StorageFailure as failure:
            self._partitions.request_failed(source, failure)
            return
        except OSError as error:
            log.error("{former} was moved to {path}, but is left: {why}", former=former, path=source.path, why=error)
        with suppress(StorageFailure):  # it is logged, and the log is offline then
            await self._partitions.sync(source)
        move.partition.on_synced()
        log.info(
            "{topic}-{partition} is in {path} now", topic=source.topic, partition=source.partition, path=source.path
        )

    def _adopt(self, source: Log, copy: Log) -> str | None:
        """Copy the rest, and put the copy in the log's place; None if too much is missing."""
        now_ms, copied = self._runtime.now_ms(), 0
        while copy.log_end_offset < source.log_end_offset:
            region = source.read(copy.log_end_offset, _CHUNK_BYTES, upto=source.log_end_offset)
            if region is None or copied + len(region) > 2 * _REST_BYTES_MAX:
                return None
            _append(copy, region, now_ms)
            copied += len(region)
        return self._copies.adopt(source, copy)

    def is_wanted(self, move: _Move) -> bool:
        is_hosted = self._partitions.hosted.get(move.key) is move.partition
        return is_hosted and self._wanted.get(move.key) == move.path and not self._is_stopped


@attrs.define(eq=False, repr=False)
class _Move:
    _moves: LogMoves
    key: TopicPartition
    path: str
    partition: Partition
    _truncations: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._truncations = self.partition.log.truncations

    def check(self) -> None:
        """Raise MoveAbandoned unless the copy is wanted, and of the same records."""
        if not self._moves.is_wanted(self) or self.partition.log.truncations != self._truncations:
            raise MoveAbandoned


def _append(copy: Log, region: FileRegion, now_ms: int) -> None:
    """Blocks; any thread."""
    copy.append(region.read(), now_ms, origin=Origin.REPLICATION)
