"""What has been loaded into a directory, and which of its files count: `manifest.json`.

    clicks/
        manifest.json                       replaced whole, by renaming
        .lock                               held by the load that runs
        00001/                              a generation
            clicks-0/                       a partition
                clicks-0-00000000000000000000-00000000000000500000.parquet
        00002/                              being made by a replay: nobody reads it yet

    one entry    |===== file =====|== nothing in it ==|== lost ==|===== file =====|....
    offsets      start          end                                               still to be loaded

A file's name says which offsets it stands for, `end` being the one behind the last; it is there only when it is whole.
So the manifest may be behind the files, and then takes up what is there; it is never ahead of them.  Entries of one
log do not overlap.  When a topic is deleted and made anew, or cut off, its entries stay, but are those of an old log:
they do not count when it is asked what is still to be loaded, and what comes goes into a new generation.

    loaded       generation 1 |==a==|==b==|==c==|==d==|
    replay of          b to c       |---------|            generation 2; a crash leaves it to be gone on with
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
from pylogbroker.spark.loading.intervals import Range, overlaps
from pylogbroker.spark.reading.planning import Slice

MANIFEST: Final = "manifest.json"
_VERSION: Final = 1
_LONGEST: Final = 190  # of a topic in a file's name: partition, offsets and the rest take up to 61 of 255 bytes


class BadManifest(PylogbrokerError):
    """The manifest cannot be read, or is not one."""


@attrs.frozen
class Part:
    """Offsets of a partition to be loaded; rows that are earlier than `since`, in ms, are left out."""

    slice: Slice
    since: int | None = None


@attrs.frozen(kw_only=True)
class Entry:
    """What became of the offsets from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int
    generation: int
    path: str | None = None
    """The file, as seen from the directory; None if there are no rows."""
    records: int = 0
    bytes: int = 0
    since: int | None = None
    """Rows that are earlier, in ms, were left out."""
    gap: str | None = None
    """Why the records were not loaded, if they were not."""
    is_old: bool = False
    """It is of a log that there is no more."""

    @property
    def key(self) -> TopicPartition:
        """Its partition."""
        return self.topic, self.partition

    @property
    def range(self) -> Range:
        """Its offsets."""
        return self.start, self.end


@attrs.frozen
class Replay:
    """A replay that is under way, and what it was asked for."""

    generation: int
    asked: str
    schema: str
    arrow: str
    parts: tuple[Part, ...]


@attrs.frozen
class Replaced:
    """A file that does not count any more, and since when, in seconds since 1970."""

    path: str
    at: float


@attrs.frozen(kw_only=True)
class Manifest:
    """The state of a directory. Methods that change something give a new one."""

    schema: str
    """The columns of all files, as text."""
    arrow: str
    """The same in Arrow's own form, as base64."""
    revision: str = ""
    """Another one each time that it is written; empty before the first time."""
    generation: int = 1
    """Where what is loaded goes."""
    generations: int = 1
    """How many have been begun."""
    topics: Mapping[str, str] = attrs.field(factory=dict)
    """The ids of the topics that are loaded."""
    begins: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    """The offset that loading began with, of each partition."""
    entries: tuple[Entry, ...] = ()
    replay: Replay | None = None
    replaced: tuple[Replaced, ...] = ()

    # -- what there is -------------------------------------------------------------------------------------------

    def files(self) -> list[Entry]:
        """The files that count, in order."""
        entries = (entry for entry in self.entries if entry.path is not None)
        return sorted(entries, key=lambda entry: (entry.key, not entry.is_old, entry.start))

    def covered(self) -> dict[TopicPartition, list[Range]]:
        """What need not be loaded any more, of each partition."""
        found: dict[TopicPartition, list[Range]] = {}
        for entry in self.entries:
            if not entry.is_old:
                found.setdefault(entry.key, []).append(entry.range)
        return found

    def in_use(self) -> set[int]:
        """The generations of which there are files that count, or may do so."""
        paths = [entry.path for entry in self.entries if entry.path is not None]
        paths += [each.path for each in self.replaced]
        replayed = {self.replay.generation} if self.replay is not None else set()
        return {self.generation, *replayed, *(int(path.split("/")[0]) for path in paths)}

    # -- what is done --------------------------------------------------------------------------------------------

    def with_entries(self, entries: Iterable[Entry]) -> Manifest:
        """Something has been loaded."""
        return attrs.evolve(self, entries=(*self.entries, *entries))

    def with_old(self, keys: Collection[TopicPartition]) -> Manifest:
        """These partitions have a new log: what is loaded of the old one stays, and the new one is begun with.

        A replay that is under way is given up.
        """
        entries = tuple(attrs.evolve(each, is_old=True) if each.key in keys else each for each in self.entries)
        begins = {key: begin for key, begin in self.begins.items() if key not in keys}
        number = self.generations + 1
        return attrs.evolve(self, entries=entries, begins=begins, generation=number, generations=number, replay=None)

    def with_replay(self, asked: str, schema: str, arrow: str, parts: Iterable[Part]) -> Manifest:
        """A replay begins; one that was under way is given up."""
        number = self.generations + 1
        return attrs.evolve(self, generations=number, replay=Replay(number, asked, schema, arrow, tuple(parts)))

    def left_by(self, parts: Iterable[Part]) -> list[Entry]:
        """The files that would remain if these parts were replayed."""
        again = _ranges(parts)
        return [entry for entry in self.entries if entry.path is not None and not _is_replaced(entry, again)]

    def switched(self, entries: Collection[Entry], now: float) -> Manifest:
        """The replay is whole: its entries take the place of those that they were made from."""
        if self.replay is None:
            raise ValueError("there is no replay")
        again = _ranges(self.replay.parts)
        gone = [each for each in self.entries if _is_replaced(each, again)]
        left = [each for each in self.entries if not _is_replaced(each, again)]
        replaced = [Replaced(each.path, now) for each in gone if each.path is not None]
        return attrs.evolve(
            self,
            generation=self.replay.generation,
            schema=self.replay.schema,
            arrow=self.replay.arrow,
            entries=(*left, *entries),
            replay=None,
            replaced=(*self.replaced, *replaced),
        )

    # -- as a file -----------------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """As it is written, one entry to a line."""
        head = {
            "version": _VERSION,
            "revision": self.revision,
            "generation": self.generation,
            "generations": self.generations,
            "schema": self.schema,
            "arrow": self.arrow,
            "topics": dict(self.topics),
            "begins": [[*key, begin] for key, begin in sorted(self.begins.items())],
            "replay": None if self.replay is None else attrs.asdict(self.replay),
            "replaced": [attrs.asdict(each) for each in self.replaced],
        }
        lines = ",\n".join(json.dumps(_compact(entry)) for entry in self.entries)
        return f'{json.dumps(head)[:-1]},\n"entries": [\n{lines}\n]}}\n'.encode()

    @classmethod
    def of_json(cls, text: bytes) -> Manifest:
        """What was written; BadManifest if it cannot be read."""
        try:
            found = json.loads(text)
            if found["version"] != _VERSION:
                raise BadManifest(
                    f"it is of version {found['version']}, and this release knows {_VERSION}: use a newer one"
                )
            return cls._of(found)
        except (ValueError, KeyError, TypeError) as error:
            raise BadManifest(f"it is damaged: {type(error).__name__}: {error}") from error

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Manifest:
        return cls(
            schema=found["schema"],
            arrow=found["arrow"],
            revision=found["revision"],
            generation=found["generation"],
            generations=found["generations"],
            topics=found["topics"],
            begins={(topic, partition): begin for topic, partition, begin in found["begins"]},
            entries=tuple(Entry(**each) for each in found["entries"]),
            replay=None if found["replay"] is None else _replay_of(found["replay"]),
            replaced=tuple(Replaced(**each) for each in found["replaced"]),
        )


def directory_of(generation: int, topic: str, partition: int) -> str:
    """Where a partition's files of a generation are."""
    return f"{generation:05}/{_stem(topic, partition)}"


def path_of(entry: Entry) -> str:
    """The file of an entry, if it has one."""
    name = f"{_stem(*entry.key)}-{entry.start:020}-{entry.end:020}.parquet"
    return f"{directory_of(entry.generation, *entry.key)}/{name}"


def range_of(name: str) -> Range | None:
    """The offsets that a file's name tells, if it is one of ours."""
    start, end = name.removesuffix(".parquet").split("-")[-2:] if name.count("-") >= 3 else ("", "")
    is_ours = name.endswith(".parquet") and len(start) == len(end) == 20 and (start + end).isdecimal()
    return (int(start), int(end)) if is_ours else None


def _stem(topic: str, partition: int) -> str:
    """A name for people. Spark passes over files whose names begin with a dot or an underscore.

    A name is no longer than file systems take; of a topic that has a longer one there is its beginning, and a hash.
    """
    first = "".join(f"%{ord(letter):02X}" for letter in topic[:1] if letter in "._")
    name = first + quote(topic[1:] if first else topic, safe="")
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 17]}~{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
    return f"{name}-{partition}"


def _ranges(parts: Iterable[Part]) -> dict[TopicPartition, list[Range]]:
    found: dict[TopicPartition, list[Range]] = {}
    for part in parts:
        found.setdefault((part.slice.topic, part.slice.partition), []).append((part.slice.start, part.slice.end))
    return found


def _is_replaced(entry: Entry, again: Mapping[TopicPartition, list[Range]]) -> bool:
    ranges = again.get(entry.key, ())
    return not entry.is_old and entry.gap is None and any(overlaps(entry.range, each) for each in ranges)


def _compact(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(entry).items() if value is not None and value is not False}


def _replay_of(found: Mapping[str, Any]) -> Replay:
    parts = tuple(Part(Slice(**each["slice"]), each["since"]) for each in found["parts"])
    return Replay(found["generation"], found["asked"], found["schema"], found["arrow"], parts)
