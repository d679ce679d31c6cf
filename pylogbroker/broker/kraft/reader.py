"""Reads the metadata log from the active controller, for ever: `MetadataLog` has the rules.

    fetch or chunk of a snapshot --answer--> log --committed records--> publisher --> the next request
         no answer, another leader: that one, or the next of the settings, after a pause

One request is on its way at a time. Records are published before the next request, so that a busy broker reads slower.
The copy on disk gets what was fetched, and gives a start the log up to where the last life has read it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.kraft.metadata_copy import MetadataCopy
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.kraft.quorum_state import REQUEST, partition_of
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import CorruptRecords, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.kraft.metadata_log import CommittedMetadata, MetadataLog, MetadataLogError, SnapshotPart
from pylogbroker.kraft.registration import FATAL
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import ClientError, Closed, code_of, error_of
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire import WireError
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch
from pylogbroker.wire.messages.fetch_snapshot import FetchSnapshotResponse
from pylogbroker.wire.metadata_records import UnknownMetadataRecord

log = Logger()
_BACKOFF: Final = Backoff(0.1, 1.0)
_MAX_WAIT_MS: Final = 500
_PURPOSE: Final = "metadata"
_LEADER_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
_SNAPSHOT_ERRORS: Final = frozenset({ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})


class ReadingEnded(PylogbrokerError):
    """The metadata cannot be followed any more; the message says why."""


@attrs.define(eq=False, repr=False)
class MetadataReader:
    """`_publish` gets committed records, one after the other."""

    _log: MetadataLog
    _copy: MetadataCopy
    _quorum: Quorum
    _runtime: Runtime
    _publish: Callable[[CommittedMetadata | SnapshotPart], Awaitable[None]]
    _max_wait_ms: int = attrs.field(default=0, init=False)
    """Of the next request. A start does not wait for records behind its copy."""
    _pauses: Pauses = attrs.field(init=False)
    _failures: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    @property
    def offset(self) -> int:
        """Offset of the last record that is published."""
        return self._log.committed_offset - 1

    def stop(self) -> None:
        self._pauses.close()
        self._copy.close()

    async def catch_up(self, has_begun: Callable[[], bool]) -> None:
        """Read up to what is committed when the first answer comes, and on until `has_begun`.

        The copy is read first, then the controllers. Raise StartupError, Closed, ReadingEnded.
        """
        await self._copy.restore(self._log)
        target = -1
        while target < 0 or self._log.committed_offset < target or not has_begun():
            if not await self._read_once():
                continue
            if target < 0:
                target = self._log.high_watermark
                await self._check_number()
            elif self._log.committed_offset >= target and not has_begun() and self._runtime.may_log("new cluster"):
                log.info("waiting for the controllers: they have not written the first metadata of the cluster yet")

    async def _check_number(self) -> None:
        """Raise ReadingEnded if a controller has this broker's number: the leader would count our fetches as its own.

        The first fetch is harmless, at offset 0. Without an answer, nothing is checked.
        """
        number = self._log.replica_id
        with suppress(ClientError, KafkaError, WireError):
            answer = await self._quorum.channel_to_any(_PURPOSE).request(REQUEST)
            if any(voter.replica_id == number for voter in partition_of(answer).current_voters):
                raise ReadingEnded(f"node.id {number} is that of a controller: choose a number that no other node has")

    async def follow(self) -> None:
        """Read until the broker stops; raise ReadingEnded."""
        try:
            while True:
                await self._read_once()
        except Closed:
            return

    async def _read_once(self) -> bool:
        """Send one request; return whether the leader has answered with records, or that there are none.

        Raise Closed, ReadingEnded.
        """
        if self._pauses.is_closed:
            raise Closed("the broker stops")
        await self._copy.wait_for_space()
        request = self._log.request(self._max_wait_ms)
        try:
            answer = await self._quorum.channel_to_any(_PURPOSE).request(request)
            took = self._take_fetch(answer) if isinstance(request, FetchRequest) else self._take_chunk(answer)
        except MetadataLogError as error:
            raise _ended(error) from error
        except (ClientError, KafkaError, WireError) as error:  # CorruptRecords among them
            await self._pause_after(error)
            return False
        if self._log.is_comparing:
            return False
        self._failures, self._max_wait_ms = 0, _MAX_WAIT_MS
        try:
            for committed in self._log.committed():
                await self._publish(committed)
            self._copy.published(self._log)
        except CorruptRecords as error:  # what follows would be applied to something else than the others have
            raise _ended(error) from error
        return took

    async def _pause_after(self, error: Exception) -> None:
        if self._pauses.is_closed:
            raise Closed("the broker stops")
        if isinstance(error, KafkaError) and error.code in FATAL:
            raise ReadingEnded(f"the controllers reject this broker, {error.code.name}: {FATAL[error.code]}") from error
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            await self._check_number()  # a leader rejects fetches of itself so
        self._failures += 1
        self._log.leader_lost()
        self._quorum.leader_lost()
        if self._failures > 1 and self._runtime.may_log("metadata log"):
            log.warn(
                "no controller of controller.quorum.bootstrap.servers gives the metadata of the cluster, it is asked "
                "again: {why}",
                why=error,
            )
        await self._pauses.pause(_BACKOFF.pause(self._failures))

    def _heard(self, answer: FetchResponse | FetchSnapshotResponse) -> None:
        """Take what each answer says of the controllers; raise its error."""
        for endpoint in answer.node_endpoints:
            self._quorum.learned(endpoint.node_id, endpoint.host, endpoint.port)
        _raise_for(answer.error_code)

    def _take_fetch(self, answer: FetchResponse) -> bool:
        self._heard(answer)
        try:
            data = answer.responses[0].partitions[0]
        except IndexError:
            raise CorruptRecords("an answer to a fetch of metadata has no partition") from None
        leader = data.current_leader
        if self._log.follow_leader(leader.leader_id, leader.leader_epoch):
            self._quorum.follow_leader(leader.leader_id)
        elif self._log.leader_id >= 0 > self._quorum.leader_id:
            self._quorum.follow_leader(self._log.leader_id)
        was_comparing = self._log.is_comparing
        code = code_of(data.error_code)
        if code in _LEADER_ERRORS:
            if self._quorum.leader_id < 0 and not was_comparing and self._compare_with(leader):
                return False
            if self._quorum.leader_id < 0 or was_comparing:
                raise error_of(code, self._why_without_leader(leader.leader_epoch))
            return False
        _raise_for(code)
        is_at_end = self._log.fetched(data)
        if was_comparing and self._log.leader_id < 0:
            raise error_of(ErrorCode.UNKNOWN_LEADER_EPOCH, self._why_without_leader(leader.leader_epoch))
        return is_at_end

    def _compare_with(self, leader: LeaderIdAndEpoch) -> bool:
        """Return whether the next request reads the first batch of a leader of an earlier epoch."""
        if not self._log.may_compare(leader.leader_epoch):
            return False
        self._quorum.follow_leader(leader.leader_id)
        if self._quorum.leader_id < 0:
            return False
        self._log.compare_with(leader.leader_id, leader.leader_epoch)
        return True

    def _why_without_leader(self, epoch: int) -> str:
        if not 0 <= epoch < self._log.leader_epoch:
            return "no controller leads now"
        cure = "restart the broker" if self._log.is_confirmed else f"stop the broker and remove {self._copy.path}"
        return (
            f"the controller is at epoch {epoch}, but this broker has seen epoch {self._log.leader_epoch}; if the "
            f"controllers were formatted again, {cure}"
        )

    def _take_chunk(self, answer: FetchSnapshotResponse) -> bool:
        self._heard(answer)
        try:
            chunk = answer.topics[0].partitions[0]
        except IndexError:
            raise CorruptRecords("an answer to a request for a metadata snapshot has no partition") from None
        code = code_of(chunk.error_code)
        if code in _SNAPSHOT_ERRORS:
            self._log.snapshot_gone()
            return False
        if code in _LEADER_ERRORS:
            if self._log.follow_leader(chunk.current_leader.leader_id, chunk.current_leader.leader_epoch):
                self._quorum.follow_leader(chunk.current_leader.leader_id)
            raise error_of(code, "another controller leads")
        _raise_for(code)
        self._log.chunk_fetched(chunk)
        return False


def _ended(error: Exception) -> ReadingEnded:
    cure = "a newer release of pylogbroker is needed, or a lower metadata.version of the cluster"
    return ReadingEnded(
        f"the metadata of the cluster cannot be followed: {error}"
        + (f"; {cure}" if isinstance(error, UnknownMetadataRecord) else "")
    )


def _raise_for(code: int) -> None:
    if code:
        raise error_of(code, f"the controller answers {code_of(code).name}")
