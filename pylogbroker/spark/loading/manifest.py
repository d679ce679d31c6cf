"""Manifest of a loaded directory: the files that count and the offsets that are done.

    clicks/
        manifest.json                       replaced as a whole, by renaming
        .lock                               held by the running load
        00001/                              a generation
            clicks-0/                       a partition
                clicks-0-00000000000000000000-00000000000000500000.parquet
        00002/                              being written by a replay: not read yet

    one entry    |===== file =====|= no records =|== lost ==|===== file =====|....
    offsets      start          end                                               still to be loaded

A file's name holds its start and end offsets (exclusive); only complete files get it. So the manifest may lack files,
never have too many. A log's entries do not overlap. Entries of a recreated or truncated topic are marked as old: rows
stay, but do not count as covered. New files go into a new generation.

    loaded       generation 1 |==a==|==b==|==c==|==d==|
    replay of          b to c       |---------|            generation 2; after a crash the replay is continued
    then         generation 2 |==a==|==e======|==d==|      in one step; b and c are `replaced`, and deleted later
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.java.text import is_digits
from pylogbroker.spark.loading.intervals import Range, overlaps
from pylogbroker.spark.reading.slices import Slice

MANIFEST: Final = "manifest.json"
_VERSION: Final = 1
_TOPIC_BYTES_MAX: Final = 190  # the rest of a file's name takes up to 61 of 255 bytes


class BadManifest(PylogbrokerError):
    """The manifest is missing or damaged."""


@attrs.frozen
class Part:
    """Offsets to load; rows before `since`, in ms, are dropped."""

    slice: Slice
    since: int | None = None


@attrs.frozen(kw_only=True)
class ManifestEntry:
    """Result for the offsets [start, end)."""

    topic: str
    partition: int
    start: int
    end: int
    generation: int
    path: str | None = None
    """In the directory; None without rows."""
    records: int = 0
    bytes: int = 0
    since: int | None = None
    """Rows before this time, in ms, were dropped."""
    gap: str | None = None
    """Why records were not loaded."""
    is_old: bool = False
    """True if the log is gone."""

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def range(self) -> Range:
        return self.start, self.end


@attrs.frozen
class UnfinishedReplay:
    generation: int
    request_key: str
    schema: str
    arrow: str
    parts: tuple[Part, ...]


@attrs.frozen
class Replaced:
    """File that no longer counts; seconds since 1970 at its replacement."""

    path: str
    at: float


@attrs.frozen(kw_only=True)
class Manifest:
    """State of a directory; changes return a new manifest."""

    schema: str
    arrow: str
    """Columns as Arrow's serialized schema, in base64."""
    revision: str = ""
    """Random id of each write."""
    generation: int = 1
    """Of new files."""
    generations: int = 1
    """Highest so far."""
    topics: Mapping[str, str] = attrs.field(factory=dict)
    begins: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    entries: tuple[ManifestEntry, ...] = ()
    replay: UnfinishedReplay | None = None
    replaced: tuple[Replaced, ...] = ()

    def files(self) -> list[ManifestEntry]:
        """Return entries with files, in order."""
        entries = (entry for entry in self.entries if entry.path is not None)
        return sorted(entries, key=lambda entry: (entry.key, not entry.is_old, entry.start))

    def covered(self) -> dict[TopicPartition, list[Range]]:
        """Return ranges that need no loading."""
        ranges: dict[TopicPartition, list[Range]] = {}
        for entry in self.entries:
            if not entry.is_old:
                ranges.setdefault(entry.key, []).append(entry.range)
        return ranges

    def in_use(self) -> set[int]:
        """Return generations that have files."""
        paths = [entry.path for entry in self.entries if entry.path is not None]
        paths += [replaced.path for replaced in self.replaced]
        replayed = {self.replay.generation} if self.replay is not None else set()
        return {self.generation, *replayed, *(int(path.split("/")[0]) for path in paths)}

    def with_entries(self, entries: Iterable[ManifestEntry]) -> Manifest:
        return attrs.evolve(self, entries=(*self.entries, *entries))

    def with_old(self, keys: Collection[TopicPartition]) -> Manifest:
        """Mark entries as old, start a generation, and abandon a replay."""
        entries = tuple(attrs.evolve(entry, is_old=True) if entry.key in keys else entry for entry in self.entries)
        begins = {key: begin for key, begin in self.begins.items() if key not in keys}
        number = self.generations + 1
        return attrs.evolve(self, entries=entries, begins=begins, generation=number, generations=number, replay=None)

    def with_replay(self, request_key: str, schema: str, arrow: str, parts: Iterable[Part]) -> Manifest:
        number = self.generations + 1
        return attrs.evolve(
            self, generations=number, replay=UnfinishedReplay(number, request_key, schema, arrow, tuple(parts))
        )

    def left_by(self, parts: Iterable[Part]) -> list[ManifestEntry]:
        """Return the files that a replay of these parts would keep."""
        again = _ranges(parts)
        return [entry for entry in self.entries if entry.path is not None and not _is_replaced(entry, again)]

    def switched(self, entries: Collection[ManifestEntry], now: float) -> Manifest:
        if self.replay is None:
            raise ValueError("there is no replay")
        again = _ranges(self.replay.parts)
        gone = [entry for entry in self.entries if _is_replaced(entry, again)]
        left = [entry for entry in self.entries if not _is_replaced(entry, again)]
        replaced = [Replaced(entry.path, now) for entry in gone if entry.path is not None]
        return attrs.evolve(
            self,
            generation=self.replay.generation,
            schema=self.replay.schema,
            arrow=self.replay.arrow,
            entries=(*left, *entries),
            replay=None,
            replaced=(*self.replaced, *replaced),
        )

    def to_json(self) -> bytes:
        head = {
            "version": _VERSION,
            "revision": self.revision,
            "generation": self.generation,
            "generations": self.generations,
            "schema": self.schema,
            "arrow": self.arrow,
            "topics": dict(self.topics),
            "begins": [[*key, begin] for key, begin in sorted(self.begins.items())],
            "replay": None if self.replay is None else _fields_of(self.replay),
            "replaced": [attrs.asdict(replaced) for replaced in self.replaced],
        }
        lines = ",\n".join(json.dumps(_compact(entry)) for entry in self.entries)
        return f'{json.dumps(head)[:-1]},\n"entries": [\n{lines}\n]}}\n'.encode()

    @classmethod
    def of_json(cls, text: bytes) -> Manifest:
        """Raise BadManifest if damaged or of another version."""
        try:
            fields = json.loads(text)
            if fields["version"] != _VERSION:
                raise BadManifest(
                    f"it has version {fields['version']}, but this release supports {_VERSION}: use a newer one"
                )
            return cls._of(fields)
        except (ValueError, KeyError, TypeError) as error:
            raise BadManifest(f"it is damaged: {type(error).__name__}: {error}") from error

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Manifest:
        return cls(
            schema=fields["schema"],
            arrow=fields["arrow"],
            revision=fields["revision"],
            generation=fields["generation"],
            generations=fields["generations"],
            topics=fields["topics"],
            begins={(topic, partition): begin for topic, partition, begin in fields["begins"]},
            entries=tuple(ManifestEntry(**entry) for entry in fields["entries"]),
            replay=None if fields["replay"] is None else _replay_of(fields["replay"]),
            replaced=tuple(Replaced(**replaced) for replaced in fields["replaced"]),
        )


def directory_of(generation: int, topic: str, partition: int) -> str:
    return f"{generation:05}/{_stem(topic, partition)}"


def path_of(entry: ManifestEntry) -> str:
    name = f"{_stem(*entry.key)}-{entry.start:020}-{entry.end:020}.parquet"
    return f"{directory_of(entry.generation, *entry.key)}/{name}"


def range_of(name: str) -> Range | None:
    """Return the offsets in a file's name; None for other files."""
    start, end = name.removesuffix(".parquet").split("-")[-2:] if name.count("-") >= 3 else ("", "")
    is_ours = name.endswith(".parquet") and len(start) == len(end) == 20 and is_digits(start + end)
    return (int(start), int(end)) if is_ours else None


def _stem(topic: str, partition: int) -> str:
    """Return a readable name without a leading dot or underscore: Spark ignores such files.

    Names too long for file systems are shortened, with a hash.
    """
    first = "".join(f"%{ord(letter):02X}" for letter in topic[:1] if letter in "._")
    name = first + quote(topic[1:] if first else topic, safe="")
    if len(name) > _TOPIC_BYTES_MAX:
        name = f"{name[: _TOPIC_BYTES_MAX - 17]}~{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
    return f"{name}-{partition}"


def _ranges(parts: Iterable[Part]) -> dict[TopicPartition, list[Range]]:
    ranges: dict[TopicPartition, list[Range]] = {}
    for part in parts:
        ranges.setdefault((part.slice.topic, part.slice.partition), []).append((part.slice.start, part.slice.end))
    return ranges


def _is_replaced(entry: ManifestEntry, again: Mapping[TopicPartition, list[Range]]) -> bool:
    ranges = again.get(entry.key, ())
    return not entry.is_old and entry.gap is None and any(overlaps(entry.range, span) for span in ranges)


def _compact(entry: ManifestEntry) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(entry).items() if value is not None and value is not False}


def _fields_of(replay: UnfinishedReplay) -> dict[str, Any]:
    fields = attrs.asdict(replay)
    return {"asked": fields.pop("request_key"), **fields}


def _replay_of(fields: Mapping[str, Any]) -> UnfinishedReplay:
    parts = tuple(Part(Slice(**part["slice"]), part["since"]) for part in fields["parts"])
    return UnfinishedReplay(fields["generation"], fields["asked"], fields["schema"], fields["arrow"], parts)
