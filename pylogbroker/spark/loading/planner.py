"""Plan a load: compare loaded ranges with the logs.

    loaded       |=====|        |=====|
    log             |..........................................| end
    since                                      (1)
    until                                                (2)
    parts              |--------|     |------------------|

(1) A new partition begins at the first record at or after `since`; without `since`, one added to a loaded topic begins
at offset 0. Loaded partitions continue; skipped offsets become a gap.

(2) Loading ends before the first record at or after `until`. Later offsets, even with earlier timestamps, are for the
next load: none is lost or duplicated.

Missing records raise DataLost, or become a gap (`failOnDataLoss` false).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.loading.intervals import Range, missing_in
from pylogbroker.spark.loading.manifest import Manifest, ManifestEntry, Part
from pylogbroker.spark.loading.task import NO_ID
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.reading.bounds import missing, partitions_for, reject_missing
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.spark.reading.slices import Slice, divide
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

log = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


@attrs.frozen
class Window:
    """The time from `since` to before `until`, in ms."""

    since: int | None = None
    until: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ConfigError(f"until must be later than since: {self.until} is not later than {self.since}")


@attrs.frozen
class Plan:
    manifest: Manifest
    parts: tuple[Part, ...]
    ends: Mapping[TopicPartition, int]


@attrs.define
class Planner:
    cluster: BlockingCluster
    options: ReadOptions
    manifest: Manifest
    window: Window

    def plan(self) -> Plan:
        keys = self._partitions()
        loaded = set(self.manifest.topics)
        self._forget_topics({topic for topic, _ in keys})
        self._add_topics({topic for topic, _ in keys})
        first, ends = self._offsets(keys, EARLIEST), self._ends(keys)
        since = self._at_time(keys, self.window.since, ends) or first
        until = self._at_time(keys, self.window.until, ends) or ends
        parts: list[Slice] = []
        covered = self.manifest.covered()
        for key in keys:
            self._begin(key, since[key], first[key], covered.setdefault(key, []), is_first=key[0] not in loaded)
            for start, end in missing_in(self.manifest.begins[key], until[key], covered[key]):
                left = self._without_lost(key, start, end, first[key])
                parts += [Slice(*key, *left)] if left else []
        return Plan(self.manifest, self._parts(parts, self.window.since), until)

    def replay(self) -> tuple[Part, ...]:
        """Return parts to reload: files that overlap the window."""
        keys = self._partitions()
        self._reject_new_topics({topic for topic, _ in keys})
        first, ends = self._offsets(keys, EARLIEST), self._offsets(keys, LATEST)
        since = self._at_time(keys, self.window.since, ends) or dict.fromkeys(keys, 0)
        until = self._at_time(keys, self.window.until, ends) or dict.fromkeys(keys, 1 << 62)
        parts: list[Part] = []
        for part in _again(self.manifest.entries, since, until):
            key = part.slice.topic, part.slice.partition
            if part.slice.start < first[key]:
                what = f"{_named(part.slice)} is to be loaded again, but the log begins at offset {first[key]}"
                self._lost(f"{what}: the loaded rows are kept; a later `since` may exclude them")
            else:
                parts.append(part)
        return tuple(
            attrs.evolve(part, slice=piece)
            for part in _merged(parts)
            for piece in divide([part.slice], None, self.options.max_records)
        )

    def _partitions(self) -> list[TopicPartition]:
        keys = partitions_for(self.cluster, self.options.topics)
        names = missing(self.cluster, self.options.topics, keys)
        gone = [name for name in names if name in self.manifest.topics] or self._gone({topic for topic, _ in keys})
        if gone:
            self._lost(f"topic {', '.join(gone)} has been deleted")
        reject_missing(name for name in names if name not in gone)
        return sorted(keys)

    def _gone(self, there: Collection[str]) -> list[str]:
        if self.options.topics.pattern is None:
            return []
        pattern = re.compile(self.options.topics.pattern)
        return sorted(name for name in self.manifest.topics if name not in there and pattern.search(name))

    def _forget_topics(self, there: Collection[str]) -> None:
        """Mark deleted topics as old: one recreated later is new."""
        gone = self._gone(there)
        if gone:
            manifest = self.manifest.with_old({key for key in self.manifest.begins if key[0] in gone})
            topics = {name: topic_id for name, topic_id in manifest.topics.items() if name not in gone}
            self.manifest = attrs.evolve(manifest, topics=topics)

    def _add_topics(self, topics: Collection[str]) -> None:
        ids = self._ids(topics)
        recreated = sorted(name for name in topics if self._is_recreated(name, ids[name]))
        if recreated:
            self._lost(
                f"topic {', '.join(recreated)} has been deleted and recreated: the loaded rows are of the old one"
            )
            keys = {key for key in self.manifest.begins if key[0] in recreated}
            self.manifest = self.manifest.with_old(keys)
        new_ids = {name: now for name, now in ids.items() if now != NO_ID or name not in self.manifest.topics}
        self.manifest = attrs.evolve(self.manifest, topics={**self.manifest.topics, **new_ids})

    def _reject_new_topics(self, topics: Collection[str]) -> None:
        ids = self._ids(topics)
        recreated = sorted(name for name in topics if self._is_recreated(name, ids[name]))
        if recreated:
            raise DataLost(f"topic {', '.join(recreated)} has been deleted and recreated: it cannot be replayed")

    def _is_recreated(self, name: str, now: str) -> bool:
        before = self.manifest.topics.get(name, now)
        return before != now and NO_ID not in (before, now)

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        infos: Mapping[str, TopicInfo] = self.cluster.topics(topics)
        return {name: str(info.topic_id) for name, info in infos.items()}

    def _offsets(self, keys: Collection[TopicPartition], at: int) -> Offsets:
        return {key: row.offset for key, row in self.cluster.offsets(dict.fromkeys(keys, at)).items()} if keys else {}

    def _at_time(self, keys: Collection[TopicPartition], at: int | None, ends: Mapping[TopicPartition, int]) -> Offsets:
        """Return the first offsets at or after a time, else the ends; nothing without a time."""
        if at is None:
            return {}
        offsets = self._offsets(keys, at)
        return {key: ends[key] if offset < 0 else min(offset, ends[key]) for key, offset in offsets.items()}

    def _ends(self, keys: Collection[TopicPartition]) -> Offsets:
        """Return the ends. A log truncated below the loaded range restarts there."""
        cut = self._cut(ends := self._offsets(keys, LATEST))
        for _ in range(self.options.retries.attempts):
            if cut:
                time.sleep(self.options.retries.pause)
                cut = self._cut(ends := self._offsets(keys, LATEST))
        if cut:
            key, reached = min(cut.items())
            where = f"{key[0]}/{key[1]}"
            self._lost(f"{where} ends at offset {ends[key]}, but it is loaded up to {reached}: it was truncated")
            manifest = self.manifest.with_old(cut)
            begins = {**manifest.begins, **{key: ends[key] for key in cut}}
            self.manifest = attrs.evolve(manifest, begins=begins)
        return ends

    def _cut(self, ends: Mapping[TopicPartition, int]) -> Offsets:
        covered = self.manifest.covered()
        reached = {key: max(end for _, end in covered[key]) for key in ends if covered.get(key)}
        return {key: end for key, end in reached.items() if end > ends[key]}

    def _begin(self, key: TopicPartition, since: int, first: int, covered: list[Range], *, is_first: bool) -> None:
        """Set the first offset, or record offsets before `since` as a gap.

        If the log begins after `since`, there is no gap: deleted records may have been later than `since`.
        """
        if key not in self.manifest.begins:
            is_early = self.window.since is not None and since > first
            begin = since if is_first or is_early else 0
            self.manifest = attrs.evolve(self.manifest, begins={**self.manifest.begins, key: begin})
            return
        reached = max((end for _, end in covered), default=self.manifest.begins[key])
        if self.window.since is not None and since > max(reached, first):
            self._gap(key, reached, since, "it is before the time that was to be loaded since")
            covered.append((reached, since))

    def _without_lost(self, key: TopicPartition, start: int, end: int, first: int) -> Range | None:
        if start >= first:
            return start, end
        gone = min(first, end)
        self._lost(f"{_named(Slice(*key, start, gone))} is not loaded yet, but the log begins at offset {first}")
        self._gap(key, start, gone, f"the log begins at offset {first}")
        return (gone, end) if gone < end else None

    def _gap(self, key: TopicPartition, start: int, end: int, why: str) -> None:
        generation = self.manifest.generation
        entry = ManifestEntry(topic=key[0], partition=key[1], start=start, end=end, generation=generation, gap=why)
        self.manifest = self.manifest.with_entries([entry])

    def _parts(self, slices: list[Slice], since: int | None) -> tuple[Part, ...]:
        pieces = divide(slices, self.options.min_partitions, self.options.max_records)
        return tuple(Part(piece, since) for piece in pieces)

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLost(what)
        log.warning("some data may have been lost: %s", what)


def _again(entries: Iterable[ManifestEntry], since: Offsets, until: Offsets) -> list[Part]:
    there = (entry for entry in entries if not entry.is_old and entry.gap is None and entry.key in since)
    inside = [entry for entry in there if entry.start < until[entry.key] and entry.end > since[entry.key]]
    parts = [Part(Slice(*entry.key, entry.start, entry.end), entry.since) for entry in inside]
    return sorted(parts, key=lambda part: part.slice)


def _merged(parts: Iterable[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last is not None and _touch(last, part):
            merged[-1] = attrs.evolve(last, slice=attrs.evolve(last.slice, end=part.slice.end))
        else:
            merged.append(part)
    return merged


def _touch(one: Part, other: Part) -> bool:
    same = (one.slice.topic, one.slice.partition) == (other.slice.topic, other.slice.partition)
    return same and one.since == other.since and one.slice.end == other.slice.start


def _named(where: Slice) -> str:
    return f"{where.topic}/{where.partition}, offsets {where.start} to {where.end},"
