"""Retention drops the oldest segments of a log: those before its start, and those that delete policies name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from operator import attrgetter

from pylogbroker.interfaces import LogFiles, LogView, SegmentView
from pylogbroker.storage.files import DeletedFiles
from pylogbroker.storage.log.guarded_policy import GuardedPolicy
from pylogbroker.storage.log.log import Log

_next_offset = attrgetter("next_offset")


def expire(log: Log, now_ms: int, policies: Iterable[GuardedPolicy] = ()) -> Iterator[DeletedFiles | None]:
    """Drop expired segments in small steps.

    Segments expire before the log start, and when a policy names them below the high watermark. If all expire, a
    new one is begun first. A swap prevents drops.

    Nothing has changed before the last None, so the caller may stop there, not later. The log may be used between
    steps.
    """
    views = yield from _views(log)
    if views is None or log.is_swapping:
        return
    files = LogFiles(log.path, log.topic_id, log.last_stable_offset, partial(_aborted, log))
    count = _count_expired(log, views, now_ms, policies, log.high_watermark, files)
    if count and count == len(log.segments):
        log.roll(now_ms)
    yield from log.drop_oldest(count)


def expire_archived(
    log: Log,
    now_ms: int,
    policies: Iterable[GuardedPolicy],
    local_policies: Iterable[GuardedPolicy],
    remote: Iterable[SegmentView],
    safe_end: int,
    stored_end: int,
    note_kept: Callable[[], None] = lambda: None,
) -> Iterator[DeletedFiles | None]:
    """Like `expire` for an archived log, of which only records below `safe_end` may be deleted.

    `policies` name segments of the whole log, of which `remote` are those below the local start: the log starts behind
    them then. `local_policies` name local segments alone, which are dropped. If they name the active one, it is sealed,
    so that it can be copied. `note_kept` is called if they name segments that are not dropped.

    Only segments below `stored_end` are dropped. Others below the log start are, when a crash does not bring the former
    log start back: there would be a gap behind what is stored below.
    """
    views = yield from _views(log)
    if views is None or log.is_swapping:
        return
    safe_end = min(safe_end, log.high_watermark)
    both = (*remote, *views)
    count = _count_expired(log, both, now_ms, policies, safe_end)
    if count:
        log.start_at(both[count - 1].next_offset)
    count = _count_expired(log, views, now_ms, local_policies, log.high_watermark)
    if count and count == len(log.segments):
        log.roll(now_ms)
    stored_end = max(min(stored_end, log.high_watermark), log.durable_start)
    dropped = sum(1 for view in views[:count] if view.next_offset <= stored_end)
    if dropped < count:
        note_kept()
    yield from log.drop_oldest(dropped)


def expired_segments(log: Log, now_ms: int, policies: Iterable[GuardedPolicy] = ()) -> Iterator[SegmentView | None]:
    """Yield the segments that `expire` would drop now, and None between small steps; nothing is changed."""
    views = yield from _views(log)
    if views is not None:
        yield from views[: _count_expired(log, views, now_ms, policies, log.high_watermark, is_preview=True)]


def _views(log: Log) -> Generator[None, None, tuple[SegmentView, ...] | None]:
    """Return all segments in small steps; None if the log went offline or was truncated meanwhile."""
    sealed, truncations = log.segments[:-1], log.truncations
    views = []
    for segment, following in zip(sealed, log.segments[1:], strict=True):
        with log.on_disk():
            views.append(segment.view(following.base_offset, False))
        yield None
    if log.offline_reason or log.truncations != truncations or log.segments[: len(sealed)] != sealed:
        return None
    return (*views, *log.views(len(sealed)))


def _aborted(log: Log, first_offset: int, upto: int) -> list[tuple[int, int]]:
    transactions = log.aborted_transactions(first_offset, upto)
    return [(aborted.producer_id, aborted.first_offset) for aborted in transactions]


def _count_expired(
    log: Log,
    views: tuple[SegmentView, ...],
    now_ms: int,
    policies: Iterable[GuardedPolicy],
    safe_end: int,
    files: LogFiles | None = None,
    *,
    is_preview: bool = False,
) -> int:
    sealed_count = len(views) - sum(view.active for view in views[-1:])
    count = bisect_right(views, log.log_start_offset, hi=sealed_count, key=_next_offset)
    limit = bisect_right(views, safe_end, key=_next_offset)
    for policy in policies:
        if views[count:]:
            named = policy.run(LogView(log.topic, log.partition, views[count:], files, is_preview), now_ms)
            count += min(named, max(limit - count, 0))
    return count
