"""Follower replica of a partition in one leader epoch: what to ask its leader next, what to do with the answer.

    state             event                          next state        actions
    ----------------  -----------------------------  ----------------  -----------------------------------------------
    (new)             log without epochs             TRUNCATING        TruncateTo the high watermark
                      log with epochs                FETCHING          or FINDING_END, before IBP 2.7
    FINDING_END       end of our latest epoch        TRUNCATING        TruncateTo; then FETCHING, or FINDING_END again
                                                                       if we lack the leader's epoch (KIP-279)
    TRUNCATING        truncated                      (as planned)
    FETCHING          records                        APPENDING         AppendFetched
                      no records                     FETCHING          AdvanceLogStart, AdvanceHighWatermark
                      diverging epoch                TRUNCATING        TruncateTo; then FETCHING
                      OFFSET_OUT_OF_RANGE            LISTING_LATEST
                      OFFSET_MOVED_TO_TIERED_STORAGE LISTING_LOCAL     or LISTING_TIERED, see KIP-1023
    APPENDING         appended                       SYNCING           AdvanceLogStart, AdvanceHighWatermark
                      append failed                  FETCHING          fetch again after a delay
    SYNCING           all appended records written   FETCHING          at once without `flush.messages`
    LISTING_LATEST    our log is longer              TRUNCATING        TruncateTo the leader's end; then FETCHING
                      our log is not longer          LISTING_EARLIEST
    LISTING_EARLIEST  it begins after our end        TRUNCATING        RestartAt the leader's start; then FETCHING
                      it does not                    FETCHING
    LISTING_LOCAL     it begins after our end        TRUNCATING        RestoreAt the leader's local start; then FETCHING
                      it does not                    FETCHING
    LISTING_TIERED    it ends after our end          TRUNCATING        RestoreAt the next offset; then FETCHING
                      it does not, or is unknown     LISTING_LOCAL
    TRUNCATING        not restored                   FETCHING          fetch again after a delay
    all that ask      FENCED_LEADER_EPOCH            FENCED            none: the next state has a later leader epoch
                      NOT_LEADER_OR_FOLLOWER, say    (same)            ask again after 10 ms, 20 ms, ...: the leader
                                                                       may hear of its epoch after us
                      other error, no answer         (same)            ask again after a delay
    any               log failed                     FAILED            none

A later leader epoch is another FollowerReplica, also with the same leader. One request is in flight at most.

The leader takes a fetch offset as what this replica will not lose, so the next fetch waits for SYNCING.

The high watermark is the leader's, at most the log end. It rises only with an answer that proves that both logs agree
(KAFKA-14704), and falls only if the log is cut. The last fetched epoch is always read from the log: an answer without
records cannot change it (KAFKA-15510).

Sources: KIP-101, KIP-279, KIP-320, KIP-595; Kafka's class AbstractFetcherThread.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

import attrs

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.replication.actions import (
    NO_ACTIONS,
    Action,
    Actions,
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendFetched,
    RestartAt,
    RestoreAt,
    TruncateTo,
)
from pylogbroker.replication.log import UNKNOWN_EPOCH, UNKNOWN_OFFSET, EpochEnd, ReplicaLog
from pylogbroker.replication.settings import ReplicationSettings


class FollowerState(Enum):
    FINDING_END = auto()
    TRUNCATING = auto()
    FETCHING = auto()
    APPENDING = auto()
    SYNCING = auto()
    LISTING_LATEST = auto()
    LISTING_EARLIEST = auto()
    LISTING_LOCAL = auto()
    LISTING_TIERED = auto()
    FENCED = auto()
    FAILED = auto()


class FetchFrom(NamedTuple):
    """Ask for records (Fetch)."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    """-1 if unknown, or if the leader would not compare it."""
    log_start_offset: int


@attrs.frozen
class FindEpochEnd:
    """Ask where a leader epoch ended (OffsetForLeaderEpoch)."""

    leader_epoch: int
    epoch: int


class LeaderOffset(Enum):
    LOG_END = auto()
    LOG_START = auto()
    LOCAL_START = auto()
    LAST_TIERED = auto()  # in the remote storage; -1 if the leader knows of none


@attrs.frozen
class ListOffset:
    """Ask for an offset of the leader (ListOffsets)."""

    leader_epoch: int
    of: LeaderOffset


FollowerRequest: TypeAlias = FetchFrom | FindEpochEnd | ListOffset


class FetchedData(NamedTuple):
    """Answer to a fetch, without the records."""

    high_watermark: int
    log_start_offset: int
    has_records: bool
    diverging: EpochEnd | None = None


_LISTED: Final = {
    FollowerState.LISTING_LATEST: LeaderOffset.LOG_END,
    FollowerState.LISTING_EARLIEST: LeaderOffset.LOG_START,
    FollowerState.LISTING_LOCAL: LeaderOffset.LOCAL_START,
    FollowerState.LISTING_TIERED: LeaderOffset.LAST_TIERED,
}
#: Answers of a leader that has not heard of this leader epoch, or of the topic.
_UNAWARE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_UNAWARE_PAUSE_MS: Final = 10
_NOTHING_FETCHED: Final = FetchedData(UNKNOWN_OFFSET, UNKNOWN_OFFSET, False)


class FollowerReplica:
    """State machine of one leader epoch. While it is SYNCING, a sync of the log must be under way."""

    def __init__(self, log: ReplicaLog, leader_epoch: int, settings: ReplicationSettings, high_watermark: int) -> None:
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.state = FollowerState.FETCHING
        self.in_flight: FollowerRequest | None = None
        self.retry_at_ms: int | None = None
        """Time before which nothing is asked, after an error."""
        self._log = log
        self._settings = settings
        self._after_truncation = FollowerState.FETCHING
        self._fetched = _NOTHING_FETCHED
        self._leader_high_watermark = UNKNOWN_OFFSET
        self._unaware_pause_ms = min(_UNAWARE_PAUSE_MS, settings.replica_fetch_backoff_ms)
        """Pause after the next answer of a leader that has not heard of this epoch."""

    def begin(self) -> Actions:
        log = self._log
        if log.latest_epoch == UNKNOWN_EPOCH and log.log_end_offset > self.high_watermark:
            return self._truncate(TruncateTo(self.high_watermark))
        if log.latest_epoch != UNKNOWN_EPOCH and not self._settings.truncates_on_fetch:
            self.state = FollowerState.FINDING_END
        else:
            self._fetch_when_written()
        return NO_ACTIONS

    def next_request(self, now_ms: int) -> FollowerRequest | None:
        """Return what to ask the leader now, with an answer to be reported; None if there is nothing to ask."""
        if self.in_flight is None and (self.retry_at_ms is None or now_ms >= self.retry_at_ms):
            self.retry_at_ms = None
            self.in_flight = self._request()
            return self.in_flight
        return None

    @property
    def lag(self) -> int:
        """Return the number of offsets up to the leader's high watermark at its last answer."""
        return max(0, self._leader_high_watermark - self._log.log_end_offset)

    @property
    def has_caught_up(self) -> bool:
        """Return whether the log has all records that were committed at the last answer of the leader."""
        return UNKNOWN_OFFSET < self._leader_high_watermark <= self._log.log_end_offset

    def check_read(self, offset: int) -> None:
        """Raise an error for an offset from which consumers cannot be served here (KIP-392).

        Above the high watermark they wait: the leader sends them here as soon as the records are. An offset after the
        log end is valid at the leader, so that OFFSET_OUT_OF_RANGE would reset a consumer without reason.
        """
        if offset > self._log.log_end_offset:
            detail = f"the log of this follower ends at {self._log.log_end_offset}"
            raise KafkaError(detail, ErrorCode.OFFSET_NOT_AVAILABLE)
        if offset < self._log.log_start_offset:
            raise OffsetOutOfRange(f"offset {offset} is before {self._log.log_start_offset}")

    # Answers. Those to other requests than the one in flight are ignored.

    def fetched(self, request: FollowerRequest, data: FetchedData) -> Actions:
        if not self._is_answered(request):
            return NO_ACTIONS
        if data.diverging is not None:
            return self._truncate(TruncateTo(self._agreed_end(data.diverging)))
        self._fetched = data
        if data.has_records:
            self.state = FollowerState.APPENDING
            return (AppendFetched(),)
        return self._follow_leader()

    def epoch_end_found(self, request: FollowerRequest, epoch_end: EpochEnd) -> Actions:
        if not self._is_answered(request):
            return NO_ACTIONS
        if epoch_end.end_offset == UNKNOWN_OFFSET:
            return self._truncate(TruncateTo(self.high_watermark))
        own = EpochEnd(*self._log.end_offset_for_epoch(epoch_end.epoch))
        knows_epoch = own.epoch in (epoch_end.epoch, UNKNOWN_EPOCH)
        following = FollowerState.FETCHING if knows_epoch else FollowerState.FINDING_END
        return self._truncate(TruncateTo(self._agreed_end(epoch_end)), following)

    def offset_listed(self, request: FollowerRequest, offset: int) -> Actions:
        if not self._is_answered(request):
            return NO_ACTIONS
        end = self._log.log_end_offset
        if self.state is FollowerState.LISTING_LATEST:
            if offset < end:
                return self._truncate(TruncateTo(offset))
            self.state = FollowerState.LISTING_EARLIEST
        elif self.state is FollowerState.LISTING_TIERED:
            if offset >= end:
                return self._truncate(RestoreAt(offset + 1))
            self.state = FollowerState.LISTING_LOCAL
        elif offset > end:
            is_archived = self.state is FollowerState.LISTING_LOCAL
            return self._truncate(RestoreAt(offset) if is_archived else RestartAt(offset))
        else:
            self._fetch_when_written()
        return NO_ACTIONS

    def request_failed(self, request: FollowerRequest, error: ErrorCode, now_ms: int) -> None:
        """Handle an error answer, or a lost connection."""
        if not self._is_answered(request):
            return
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and self.state is FollowerState.FETCHING:
            self.state = FollowerState.LISTING_LATEST
        elif error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and self.state is FollowerState.FETCHING:
            skips = self._log.has_only_archive and self._settings.begins_at_tiered_end()
            self.state = FollowerState.LISTING_TIERED if skips else FollowerState.LISTING_LOCAL
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            self.state = FollowerState.FENCED
        elif error in _UNAWARE:
            self.retry_at_ms = now_ms + self._unaware_pause_ms
            self._unaware_pause_ms = min(2 * self._unaware_pause_ms, self._settings.replica_fetch_backoff_ms)
        else:
            self.retry_at_ms = now_ms + self._settings.replica_fetch_backoff_ms

    def not_answered(self, request: FollowerRequest) -> None:
        """Handle that the leader has not looked at the request: ask again at once."""
        self._is_answered(request)

    # Results of actions

    def appended(self) -> Actions:
        self._fetch_when_written()
        return self._follow_leader()

    def append_failed(self, now_ms: int) -> None:
        """Fetch again later: the records were damaged, or do not fit, or the disk is full."""
        self._fetch_when_written()
        self.retry_at_ms = now_ms + self._settings.replica_fetch_backoff_ms

    def truncated(self) -> None:
        """Handle a cut log; the cut may be below the wanted offset, at the begin of a batch."""
        log = self._log
        self.high_watermark = max(min(self.high_watermark, log.log_end_offset), log.log_start_offset)
        if self._after_truncation is FollowerState.FETCHING or log.latest_epoch == UNKNOWN_EPOCH:
            self._fetch_when_written()
        else:
            self.state = self._after_truncation

    def restore_failed(self, now_ms: int) -> None:
        """Fetch again later: the archive could not be read."""
        self._fetch_when_written()
        self.retry_at_ms = now_ms + self._settings.replica_fetch_backoff_ms

    def synced(self) -> None:
        if self.state is FollowerState.SYNCING:
            self._fetch_when_written()

    def log_failed(self) -> None:
        self.state = FollowerState.FAILED
        self.in_flight = None

    # Rules

    def _request(self) -> FollowerRequest | None:
        log, epoch = self._log, self.leader_epoch
        match self.state:
            case FollowerState.FETCHING:
                return FetchFrom(epoch, log.log_end_offset, self._last_fetched_epoch(), log.log_start_offset)
            case FollowerState.FINDING_END:
                return FindEpochEnd(epoch, log.latest_epoch)
            case state:
                return ListOffset(epoch, _LISTED[state]) if state in _LISTED else None

    def _last_fetched_epoch(self) -> int:
        return self._log.latest_epoch if self._settings.truncates_on_fetch else UNKNOWN_EPOCH

    def _is_answered(self, request: FollowerRequest) -> bool:
        if request is not self.in_flight:
            return False
        self.in_flight = None
        return True

    def _fetch_when_written(self) -> None:
        log = self._log
        is_written = log.synced_offset >= log.log_end_offset
        self.state = FollowerState.FETCHING if is_written else FollowerState.SYNCING

    def _agreed_end(self, leader_end: EpochEnd) -> int:
        """Return the offset up to which both logs may agree, from the end of an epoch at the leader.

        If that epoch is missing here, nothing after the largest smaller one agrees.
        """
        log = self._log
        own = EpochEnd(*log.end_offset_for_epoch(leader_end.epoch))
        if own.epoch == UNKNOWN_EPOCH:  # no epochs are known: all differ from the leader's
            return min(leader_end.end_offset, log.log_end_offset)
        return min(own.end_offset, leader_end.end_offset)

    def _truncate(
        self, action: TruncateTo | RestartAt | RestoreAt, following: FollowerState = FollowerState.FETCHING
    ) -> Actions:
        self.state = FollowerState.TRUNCATING
        self._after_truncation = following
        self.high_watermark = min(self.high_watermark, action.offset)
        return (action,)

    def _follow_leader(self) -> Actions:
        """Take the leader's log start and high watermark: both logs agree between them.

        The log start is first: records before it may differ from those that the leader has deleted.
        """
        actions: list[Action] = []
        log, data = self._log, self._fetched
        self._leader_high_watermark = max(data.high_watermark, self._leader_high_watermark)
        if data.log_start_offset > log.log_start_offset:
            actions.append(AdvanceLogStart(data.log_start_offset))
        high_watermark = min(data.high_watermark, log.log_end_offset)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            actions.append(AdvanceHighWatermark(high_watermark))
        return tuple(actions)
