"""The driver's side of a load: which of its parts are whole, and when the manifest says so.

    tasks' files       a   b        c       d
    look               .....a,b........c......d
    commit                   .........a,b,c......d       not more often than it is cheap

Of a replay, nothing is in the manifest until all of it is whole.  What does not count is deleted only when the manifest
has been written: a load that finds there that it is not the only one deletes nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.loading.filling import Job, whole_files
from pylogbroker.spark.loading.intervals import Range, apart, missing_in
from pylogbroker.spark.loading.manifest import MANIFEST, Entry, Manifest, Part, directory_of, range_of
from pylogbroker.spark.loading.store import Store, TargetInUse, is_temporary
from pylogbroker.spark.reading.planning import Slice

_LAST: Final = (1 << 63) - 1
_SELDOM: Final = 20  # a commit takes at most this part of the time
_LEAST: Final = 0.5


@attrs.define
class Accounts:
    """What a load has done so far."""

    store: Store
    manifest: Manifest
    job: Job
    parts: tuple[Part, ...]
    is_replay: bool = False
    entries: list[Entry] = attrs.field(factory=list)
    """What this load has come to, in its run or in the one that it goes on with."""
    before: Mapping[TopicPartition, Iterable[Range]] = attrs.field(factory=dict)
    """What is done with of the parts already."""
    unfinished_bytes: int = 0
    """The size of files that are not whole yet."""
    _committed: int = 0
    _next_commit: float = 0.0

    def look(self) -> None:
        """Take up the files that have become whole, of what is not done yet."""
        missing = [part.slice for part in self.missing()]
        listed = self.store.listed({self._directory(each) for each in missing})
        self.add(
            entry
            for each in missing
            for entry in whole_files(self.store, self.job, each, listed[self._directory(each)])
        )
        files = (each for found in listed.values() for each in found.items())
        self.unfinished_bytes = sum(size for name, size in files if is_temporary(name))

    def add(self, entries: Iterable[Entry]) -> None:
        """Take these up, if what they are of is not done with already."""
        by_key: dict[TopicPartition, list[Entry]] = {}
        for entry in entries:
            by_key.setdefault(entry.key, []).append(entry)
        covered = self._covered()
        for key, found in by_key.items():
            self.entries += apart(found, covered.get(key, ()), lambda entry: entry.range)

    def missing(self) -> list[Part]:
        """What is still to be done of the parts."""
        covered = self._covered()
        return [
            attrs.evolve(part, slice=attrs.evolve(part.slice, start=start, end=end))
            for part in self.parts
            for start, end in missing_in(
                part.slice.start, part.slice.end, covered.get((part.slice.topic, part.slice.partition), ())
            )
        ]

    # -- the manifest --------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write what is done into the manifest; of a replay, only when it is whole."""
        if self.is_replay:
            if not self.missing():
                self._write(self.manifest.switched(self.entries, time.time()))
        elif len(self.entries) > self._committed:
            self._write(self.manifest.with_entries(self.entries[self._committed :]))
            self._committed = len(self.entries)

    def commit_now_and_then(self) -> None:
        """The same, if the last time is long ago; for files that become whole while others are being written."""
        began = time.monotonic()
        if not self.is_replay and began >= self._next_commit:
            self.commit()
            now = time.monotonic()
            self._next_commit = now + max(_LEAST, _SELDOM * (now - began))

    def _write(self, manifest: Manifest) -> None:
        self.manifest = write_manifest(self.store, manifest)

    def sweep(self) -> None:
        """Delete what the tasks left that does not count."""
        listed = self.store.listed({self._directory(part.slice) for part in self.parts})
        if listed:
            refuse_changed(self.store, self.manifest)
            self.store.each(self.store.delete, litter(self.manifest, listed, self.entries))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _covered(self) -> dict[TopicPartition, list[Range]]:
        found = {key: list(ranges) for key, ranges in self.before.items()}
        for entry in self.entries:
            found.setdefault(entry.key, []).append(entry.range)
        return found

    def _directory(self, part: Slice) -> str:
        return directory_of(self.job.generation, part.topic, part.partition)


def taken_up(store: Store, manifest: Manifest, job: Job) -> tuple[Manifest, list[str]]:
    """With the files that are whole, but that the manifest does not know of, since the load before ended early.

    Also gives the paths of what else that left, to be deleted when the manifest has been written.
    """
    accounts = Accounts(store, manifest, job, (), before=manifest.covered())
    wholes = {directory_of(job.generation, *key): Slice(*key, 0, _LAST) for key in sorted(manifest.begins)}
    listed = store.listed(wholes)
    known = {entry.path for entry in manifest.entries if entry.path is not None}
    for directory, whole in wholes.items():
        accounts.add(whole_files(store, job, whole, listed[directory], known))
    return manifest.with_entries(accounts.entries), litter(manifest, listed, accounts.entries)


def litter(manifest: Manifest, listed: Mapping[str, Iterable[str]], more: Collection[Entry]) -> list[str]:
    """The paths of those files in directories that are not whole, or that do not count."""
    known = {entry.path for entry in (*manifest.entries, *more)} | {each.path for each in manifest.replaced}
    paths = [(f"{directory}/{name}", name) for directory, names in listed.items() for name in names]
    return [path for path, name in paths if is_temporary(name) or (range_of(name) is not None and path not in known)]


def tidied(store: Store, manifest: Manifest, keep: float) -> Manifest:
    """Without files that were replaced longer ago than `keep` seconds, and without replays that were given up."""
    old = [each for each in manifest.replaced if each.at + keep <= time.time()]
    for each in old:
        store.delete(each.path)
    left = attrs.evolve(manifest, replaced=tuple(each for each in manifest.replaced if each not in old))
    for name in store.directories():
        if name.isdecimal() and len(name) >= 5 and int(name) not in left.in_use() and int(name) <= left.generations:
            store.delete_directory(name)
    return left


def refuse_changed(store: Store, manifest: Manifest) -> None:
    """TargetInUse if the manifest that this one was made from is not there any more; where there is a lock, it is."""
    if store.is_local:
        return
    found = store.read(MANIFEST)
    if (Manifest.of_json(found).revision if found is not None else "") != manifest.revision:
        raise TargetInUse(f"{store.uri} is being loaded into by another load: its manifest has changed meanwhile")


def write_manifest(store: Store, manifest: Manifest) -> Manifest:
    """Put it in the place of the one that it was made from; TargetInUse if that is not there any more."""
    refuse_changed(store, manifest)
    written = attrs.evolve(manifest, revision=uuid.uuid4().hex)
    store.write(MANIFEST, written.to_json())
    return written
