"""Opening the log of one partition: from the files of a directory to a `Log`.

After a clean stop only the last segment's tail is looked at, from its last index entry on; it must end where the
checkpoint says that the log was safe on disk.  If it does not, or the stop was not clean, the log is recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_epochs
from pylogbroker.storage.files import Pools, remove
from pylogbroker.storage.formatting import counted
from pylogbroker.storage.log.addressing import (
    OFFSET_ADDRESSED,
    addressing_of,
    read_message_format,
    write_message_format,
)
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.leader_epochs import UNDEFINED, LeaderEpochs
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.log.partition_metadata import read_topic_id
from pylogbroker.storage.log.producer_recovery import load_producers, states_at
from pylogbroker.storage.log.producer_states import ProducerStates
from pylogbroker.storage.log.quarantine import quarantine
from pylogbroker.storage.log.recovery import Cut, gap_behind, recover_segment
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.segment_swap import finish_swap
from pylogbroker.storage.log.transaction_index_recovery import check_transaction_indexes

_MEASURED: Final = (names.RECORDS, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)


@attrs.frozen
class Checkpointed:
    """What the log directory's checkpoints say of a log."""

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaner_checkpoint: int = 0


@attrs.frozen
class Recovered:
    """What was found and done when a log was recovered; `str` makes one line of it."""

    path: str
    segments: int
    cut: Cut | None = None
    dropped: int = 0  # segments behind the cut
    log_end_offset: int = 0
    aside: str = ""  # the directory where these are kept

    def __str__(self) -> str:
        what = str(self.cut) if self.cut else "all entries sound"
        if self.dropped:
            what += f", dropped {counted(self.dropped, 'segment')} behind"
        if self.aside:
            what += f", kept in {self.aside}"
        return f"{self.path}: recovered {counted(self.segments, 'segment')}, {what}; ends at {self.log_end_offset}"


Reporter = Callable[[Recovered], None]


@attrs.define
class _Found:
    """The files of a partition's directory."""

    sizes: dict[int, dict[str, int]] = attrs.field(factory=dict)  # base offset -> suffix -> bytes
    snapshots: list[int] = attrs.field(factory=list)
    has_metadata: bool = False
    has_message_format: bool = False


def load_log(
    topic: str,
    partition: int,
    path: str,
    config: LogConfig,
    pools: Pools,
    saved: Checkpointed,
    now_ms: int,
    report: Reporter,
) -> Log:
    """Open a log, recovering it if needed; make it if there is none.  Blocks; one log is opened by one thread.

    OSError if the disk fails; DamagedFile if it is not known how an exchange of segments was to go on, or what the
    layout of the entries is.
    """
    finish_swap(path)
    found = _look(path)
    addressing = (
        read_message_format(path)
        if found.has_message_format
        else OFFSET_ADDRESSED
        if found.sizes
        else addressing_of(config)
    )
    segments = [
        Segment.existing(path, base, found.sizes[base], pools, now_ms, addressing) for base in sorted(found.sizes)
    ]
    if not segments:
        write_message_format(path, addressing)
        preallocate = config.segment_bytes if config.preallocate else 0
        segments = [Segment.create(path, saved.log_start_offset, pools, preallocate, now_ms, addressing)]
    for segment in segments:
        segment.index_interval = config.index_interval_bytes
    segments[-1].jitter_ms = config.random_jitter_ms()
    end = _clean_end(segments[-1]) if saved.clean or not found.sizes else None
    safe = len(segments)
    if end is None or (found.sizes and end != saved.recovery_point):
        safe = max((n for n, segment in enumerate(segments) if segment.base_offset <= saved.recovery_point), default=0)
        end = None
    epochs = _load_epochs(path, segments, segments[min(safe, len(segments) - 1)])
    if end is None:
        end = _recover(path, segments, safe, states_at(path, found.snapshots, segments, safe), epochs, report)
    safe_end = segments[safe].base_offset if safe < len(segments) else end
    check_transaction_indexes(path, found.snapshots, segments[:safe], safe_end)
    log = _assemble(topic, partition, path, config, pools, tuple(segments), found, epochs, saved, end, now_ms)
    if found.has_metadata:
        log.topic_id = read_topic_id(path)
    for segment in log.segments:
        segment.close()
    return log


def _assemble(
    topic: str,
    partition: int,
    path: str,
    config: LogConfig,
    pools: Pools,
    segments: tuple[Segment, ...],
    found: _Found,
    epochs: LeaderEpochs,
    saved: Checkpointed,
    end: int,
    now_ms: int,
) -> Log:
    start = max(saved.log_start_offset, segments[0].base_offset)
    producers, snapshot = load_producers(path, found.snapshots, segments, end)
    if end == segments[0].base_offset:
        snapshot = end  # nothing was ever written: nothing to know
    epochs.truncate_end(end)
    recovery_point = min(saved.recovery_point, end)
    log = Log(
        topic, partition, path, config, pools, segments, min(start, end), end, recovery_point, epochs, producers,
        snapshot, now_ms,
    )  # fmt: skip
    log.high_watermark = max(min(saved.high_watermark, end), log.log_start_offset)
    log.cleaner_checkpoint = min(saved.cleaner_checkpoint, end)
    if start > end:
        for deleted in log.restart_at(start, now_ms):
            deleted.unlink()
    return log


def _look(path: str) -> _Found:
    """Which files there are; left-overs of deleted segments, of cleanings and of interrupted writes are removed."""
    found = _Found()
    others: dict[int, dict[str, int]] = {}
    with os.scandir(path) as listing:
        for entry in listing:
            if entry.name.endswith((names.CLEANED, names.DELETED, names.TEMPORARY)):
                remove(entry.path)
                continue
            parsed = names.parse_file(entry.name)
            if parsed is None:
                found.has_metadata |= entry.name == names.PARTITION_METADATA
                found.has_message_format |= entry.name == names.MESSAGE_FORMAT
            elif parsed[1] == names.SNAPSHOT:
                found.snapshots.append(parsed[0])
            elif parsed[1] in _MEASURED:
                others.setdefault(parsed[0], {})[parsed[1]] = entry.stat().st_size
    for base, sizes in others.items():
        if names.RECORDS in sizes:
            found.sizes[base] = sizes
        else:
            for suffix in sizes:
                remove(names.file_of(path, base, suffix))
    return found


def _load_epochs(path: str, segments: list[Segment], latest: Segment) -> LeaderEpochs:
    """From the checkpoint, or if that is not to be had, from the entries.

    One that does not know in which epoch the `latest` segment that it should know of begins is stale.
    """
    name = f"{path}/{names.LEADER_EPOCHS}"
    try:
        known = read_epochs(name)
    except DamagedFile:
        known = None
    if known is not None and _is_in(latest, LeaderEpochs(name, known)):
        return LeaderEpochs(name, known)
    epochs = LeaderEpochs(name, [])
    try:
        for segment in segments:
            for _, entry in segment.entry_headers():
                epochs.observe(entry.leader_epoch, entry.base_offset)
    except CorruptRecords:
        pass  # recovery will cut there
    epochs.dirty = any(segment.size for segment in segments)
    return epochs


def _is_in(segment: Segment, epochs: LeaderEpochs) -> bool:
    """Whether a segment's first entry is of the epoch that is known of its offset, as far as can be told."""
    try:
        first = next(segment.entry_headers(), None)
    except CorruptRecords:
        return True
    return first is None or first[1].leader_epoch in (UNDEFINED, epochs.epoch_at(first[1].base_offset))


def _clean_end(segment: Segment) -> int | None:
    """Where the log ends by its last segment's tail; None if that is damaged."""
    if not segment.size:
        return segment.base_offset
    try:
        return segment.end_offset()
    except CorruptRecords:
        return None


def _recover(
    path: str, segments: list[Segment], first: int, producers: ProducerStates, epochs: LeaderEpochs, report: Reporter
) -> int:
    """Check the segments from the `first` on, where `producers` are the states, and cut; says where the log ends."""

    def visit(segment: Segment, entry: LogEntry) -> None:
        epochs.observe(entry.leader_epoch, entry.base_offset)
        if entry.producer_id >= 0 and (ended := producers.record(entry)) is not None:
            segment.transaction_index.note(ended, producers.first_undecided_offset)

    checked, dropped, aside, end = 0, 0, "", segments[0].base_offset
    cut: Cut | None = None
    for number in range(first, len(segments)):
        behind = segments[number + 1 :]
        end, cut = recover_segment(segments[number], visit, behind[0].base_offset if behind else -1)
        checked += 1
        if cut is None and any(segment.size for segment in behind):
            cut = gap_behind(segments[number], end, behind[0])
        if cut is not None:
            del segments[number + 1 :]
            dropped, aside = len(behind), _drop(path, behind)
            break
    report(Recovered(path, checked, cut, dropped, end, aside))
    return end


def _drop(path: str, behind: list[Segment]) -> str:
    """Take segments out of a log; says where they are kept, if there is anything in them."""
    if any(segment.size for segment in behind):
        return quarantine(path, behind)
    for segment in behind:
        segment.delete().unlink()
    return ""
