"""Opens the log of one partition.

After a clean stop, the last segment is read from its last index entry on. If it does not end at the recovery point, or
after an unclean stop, the log is recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.formatting import counted
from pylogbroker.records import LogEntry
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_epochs
from pylogbroker.storage.files import Pools, remove
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.addressing import (
    OFFSET_ADDRESSED,
    Addressing,
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
from pylogbroker.storage.log.recovery import Cut, gap_behind, quarantine, recover_segment
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.segment_swap import finish_swap
from pylogbroker.storage.log.transaction_index_recovery import check_transaction_indexes

_LEFTOVERS: Final = (names.CLEANED, names.DELETED, names.TEMPORARY)
_MEASURED: Final = (names.RECORDS, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)


@attrs.frozen
class Checkpointed:
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaner_checkpoint: int = 0


@attrs.frozen
class Recovered:
    path: str
    segments: int
    cut: Cut | None = None
    dropped: int = 0  # segments after the cut
    log_end_offset: int = 0
    quarantined: str = ""  # directory that keeps these

    def __str__(self) -> str:
        result = str(self.cut) if self.cut else "all batches are valid"
        if self.dropped:
            result += f", dropped {counted(self.dropped, 'segment')} after it"
        if self.quarantined:
            result += f", kept in {self.quarantined}"
        return f"{self.path}: recovered {counted(self.segments, 'segment')}, {result}; ends at {self.log_end_offset}"


Reporter = Callable[[Recovered], None]


def ignore(finding: object) -> None:
    """Discard a notice."""


@attrs.define
class _Listing:
    sizes: dict[int, dict[str, int]] = attrs.field(factory=dict)  # base offset -> suffix -> bytes
    snapshots: list[int] = attrs.field(factory=list)
    others: set[str] = attrs.field(factory=set)  # names of files of the whole log


def load_log(
    topic: str,
    partition: int,
    path: str,
    config: LogConfig,
    pools: Pools,
    saved: Checkpointed,
    now_ms: int,
    report: Reporter = ignore,
    topic_id: UUID | None = None,
) -> Log:
    """Open a log, with recovery if needed; create a missing one. Blocks; one thread per log.

    The log's topic id is read from its directory unless the caller has done so. Only files that are there are opened:
    a start opens many logs.

    Raise OSError if the disk fails; DamagedFile for an unreadable commit record, or an unreadable or
    missing message format.
    """
    listing = _list_files(path)
    addressing = _addressing(path, listing, config)
    segments = [
        Segment.existing(path, base, listing.sizes[base], pools, now_ms, addressing) for base in sorted(listing.sizes)
    ]
    if not segments:
        write_message_format(path, addressing)
        preallocate = config.segment_bytes if config.preallocate else 0
        segments = [Segment.create(path, saved.log_start_offset, pools, preallocate, now_ms, addressing)]
    for segment in segments:
        segment.index_interval = config.index_interval_bytes
    segments[-1].jitter_ms = config.random_jitter_ms()
    end = _clean_end(segments[-1]) if saved.clean or not listing.sizes else None
    safe = len(segments)
    if end is None or (listing.sizes and end != saved.recovery_point):
        safe = max((n for n, segment in enumerate(segments) if segment.base_offset <= saved.recovery_point), default=0)
        end = None
    epochs = _load_epochs(path, listing, segments, segments[min(safe, len(segments) - 1)])
    if end is None:
        states = states_at(path, listing.snapshots, segments, safe)
        end = _recover(path, segments, safe, states, epochs, report, config.remote_storage_enable)
    safe_end = segments[safe].base_offset if safe < len(segments) else end
    _check_transaction_indexes(path, listing, segments[:safe], safe_end)
    log = _assemble(topic, partition, path, config, pools, tuple(segments), listing, epochs, saved, end, now_ms)
    if topic_id is None and names.PARTITION_METADATA in listing.others:
        topic_id = read_topic_id(path)
    log.topic_id = topic_id
    for segment in log.segments:
        segment.close()
    return log


def _addressing(path: str, listing: _Listing, config: LogConfig) -> Addressing:
    if names.MESSAGE_FORMAT in listing.others:
        return read_message_format(path)
    if not listing.sizes:
        return addressing_of(config)
    if config.byte_addressed:
        raise DamagedFile(
            f"{path}/{names.MESSAGE_FORMAT} is missing, but the topic's message.format.version is 0.7: the log is not "
            "opened, and nothing is lost. If it is a log of 0.7, write the line 0.7 to that file; else move the "
            "directory away. Then start the broker again"
        )
    return OFFSET_ADDRESSED


def _assemble(
    topic: str,
    partition: int,
    path: str,
    config: LogConfig,
    pools: Pools,
    segments: tuple[Segment, ...],
    listing: _Listing,
    epochs: LeaderEpochs,
    saved: Checkpointed,
    end: int,
    now_ms: int,
) -> Log:
    start = max(saved.log_start_offset, _earliest_start(config, segments[0], epochs))
    producers, snapshot = load_producers(path, listing.snapshots, segments, end)
    if end == segments[0].base_offset:
        snapshot = end  # an empty log needs none
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
    epochs.truncate_start(log.log_start_offset)  # the checkpoint may be older than the start
    return log


def _earliest_start(config: LogConfig, first: Segment, epochs: LeaderEpochs) -> int:
    """Return where a log starts that no checkpoint knows: an archived one where its leader epochs begin.

    If they had to be read from the batches (`dirty`), nobody knows but the archive: 0 deletes nothing there.
    """
    if not config.remote_storage_enable:
        return first.base_offset
    if epochs.dirty or not epochs.entries:
        return 0 if first.size else first.base_offset
    return min(epochs.entries[0][1], first.base_offset)


def _list_files(path: str) -> _Listing:
    """List the files; finish a swap, and remove what deletions, cleanings and interrupted writes left."""
    entries = _scan(path)
    if names.SWAP_COMMIT in entries and finish_swap(path):
        entries = _scan(path)
    files = _Listing()
    measured: dict[int, dict[str, int]] = {}
    for name, file in entries.items():
        if name.endswith(_LEFTOVERS):
            remove(file.path)
            continue
        parsed = names.parse_file(name)
        if parsed is None:
            files.others.add(name)
        elif parsed[1] == names.SNAPSHOT:
            files.snapshots.append(parsed[0])
        elif parsed[1] in _MEASURED:
            measured.setdefault(parsed[0], {})[parsed[1]] = file.stat().st_size
    for base, sizes in measured.items():
        if names.RECORDS in sizes:
            files.sizes[base] = sizes
        else:
            for suffix in sizes:
                remove(names.file_of(path, base, suffix))
    return files


def _scan(path: str) -> dict[str, os.DirEntry[str]]:
    with os.scandir(path) as listing:
        return {file.name: file for file in listing}


def _check_transaction_indexes(path: str, listing: _Listing, segments: list[Segment], end: int) -> None:
    has_checkpoint = names.ABORTED_TRANSACTIONS in listing.others
    if has_checkpoint or any(names.TRANSACTION_INDEX in sizes for sizes in listing.sizes.values()):
        check_transaction_indexes(path, listing.snapshots, segments, end)


def _load_epochs(path: str, listing: _Listing, segments: list[Segment], latest: Segment) -> LeaderEpochs:
    """Load the checkpoint; use the batches if it lacks the epoch in which segment `latest` begins."""
    try:
        stored = read_epochs(f"{path}/{names.LEADER_EPOCHS}") if names.LEADER_EPOCHS in listing.others else None
    except DamagedFile:
        stored = None
    if stored is not None and _covers(epochs := LeaderEpochs(path, stored), latest):
        return epochs
    epochs = LeaderEpochs(path, [])
    try:
        for segment in segments:
            for _, entry in segment.entry_headers():
                epochs.observe(entry.leader_epoch, entry.base_offset)
    except CorruptRecords:
        pass  # recovery truncates there
    epochs.dirty = any(segment.size for segment in segments)
    return epochs


def _covers(epochs: LeaderEpochs, segment: Segment) -> bool:
    try:
        first = next(segment.entry_headers(), None)
    except CorruptRecords:
        return True
    return first is None or first[1].leader_epoch in (UNDEFINED, epochs.epoch_at(first[1].base_offset))


def _clean_end(segment: Segment) -> int | None:
    if not segment.size:
        return segment.base_offset
    try:
        return segment.end_offset()
    except CorruptRecords:
        return None


def _recover(
    path: str,
    segments: list[Segment],
    first: int,
    producers: ProducerStates,
    epochs: LeaderEpochs,
    report: Reporter,
    is_archived: bool,
) -> int:
    """Check segments from number `first` on; return the end of the log.

    A crash of the machine may have lost snapshots of producer states. Copies of archived segments have them.
    """

    def visit(segment: Segment, entry: LogEntry) -> None:
        epochs.observe(entry.leader_epoch, entry.base_offset)
        if entry.producer_id >= 0 and (ended := producers.record(entry)) is not None:
            segment.transaction_index.note(ended, producers.first_undecided_offset)

    checked, dropped, quarantined, end = 0, 0, "", segments[0].base_offset
    cut: Cut | None = None
    for number in range(first, len(segments)):
        later = segments[number + 1 :]
        if is_archived and number > first:
            producer_snapshots.write(names.file_of(path, segments[number].base_offset, names.SNAPSHOT), producers)
        end, cut = recover_segment(segments[number], visit, later[0].base_offset if later else -1)
        checked += 1
        if cut is None and any(segment.size for segment in later):
            cut = gap_behind(segments[number], end, later[0])
        if cut is not None:
            del segments[number + 1 :]
            dropped, quarantined = len(later), _drop(path, later)
            break
    report(Recovered(path, checked, cut, dropped, end, quarantined))
    return end


def _drop(path: str, segments: list[Segment]) -> str:
    """Quarantine segments, or delete them if all are empty; return the new directory."""
    if any(segment.size for segment in segments):
        return quarantine(path, segments)
    for segment in segments:
        segment.delete().unlink()
    return ""
