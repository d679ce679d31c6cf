"""Completed parts of a load, and commits of the manifest, in the driver.

    tasks' files       a   b        c       d
    add_published      .....a,b........c......d
    commit                   .........a,b,c......d       limited to 5 % of the time

Other files are deleted only after writing the manifest: a load that finds another load's manifest deletes nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.interfaces import TopicPartition
from pylogbroker.java.text import is_digits
from pylogbroker.spark.loading.intervals import Range, apart, missing_in
from pylogbroker.spark.loading.manifest import MANIFEST, Manifest, ManifestEntry, Part, directory_of, range_of
from pylogbroker.spark.loading.store import Store, TargetInUse, is_temporary
from pylogbroker.spark.loading.task import TaskParameters, whole_files
from pylogbroker.spark.reading.slices import Slice

_OFFSET_MAX: Final = (1 << 63) - 1
_PAUSE_FACTOR: Final = 20  # in durations of the last commit
_PAUSE_SECONDS_MIN: Final = 0.5


@attrs.define
class ManifestCommitter:
    store: Store
    manifest: Manifest
    parameters: TaskParameters
    parts: tuple[Part, ...]
    is_replay: bool = False
    entries: list[ManifestEntry] = attrs.field(factory=list)
    """Results of this run, and of a replay it continues."""
    before: Mapping[TopicPartition, Iterable[Range]] = attrs.field(factory=dict)
    unfinished_bytes: int = 0
    """Size of temporary files."""
    _committed: int = 0
    _next_commit: float = 0.0

    def add_published(self) -> None:
        missing = [part.slice for part in self.missing()]
        listed = self.store.listed({self._directory(piece) for piece in missing})
        self.add(
            entry
            for piece in missing
            for entry in whole_files(self.store, self.parameters, piece, listed[self._directory(piece)])
        )
        files = (file for sizes in listed.values() for file in sizes.items())
        self.unfinished_bytes = sum(size for name, size in files if is_temporary(name))

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Add entries apart from completed ranges."""
        by_key: dict[TopicPartition, list[ManifestEntry]] = {}
        for entry in entries:
            by_key.setdefault(entry.key, []).append(entry)
        covered = self._covered()
        for key, candidates in by_key.items():
            self.entries += apart(candidates, covered.get(key, ()), lambda entry: entry.range)

    def missing(self) -> list[Part]:
        covered = self._covered()
        return [
            attrs.evolve(part, slice=attrs.evolve(part.slice, start=start, end=end))
            for part in self.parts
            for start, end in missing_in(
                part.slice.start, part.slice.end, covered.get((part.slice.topic, part.slice.partition), ())
            )
        ]

    def commit(self) -> None:
        """Write completed entries into the manifest; a replay only as a whole."""
        if self.is_replay:
            if not self.missing():
                self._write(self.manifest.switched(self.entries, time.time()))
        elif len(self.entries) > self._committed:
            self._write(self.manifest.with_entries(self.entries[self._committed :]))
            self._committed = len(self.entries)

    def commit_if_due(self) -> None:
        began = time.monotonic()
        if not self.is_replay and began >= self._next_commit:
            self.commit()
            now = time.monotonic()
            self._next_commit = now + max(_PAUSE_SECONDS_MIN, _PAUSE_FACTOR * (now - began))

    def _write(self, manifest: Manifest) -> None:
        self.manifest = write_manifest(self.store, manifest)

    def delete_leftovers(self) -> None:
        listed = self.store.listed({self._directory(part.slice) for part in self.parts})
        if listed:
            _check_unchanged(self.store, self.manifest)
            self.store.for_all(self.store.delete, leftovers(self.manifest, listed, self.entries))

    def _covered(self) -> dict[TopicPartition, list[Range]]:
        covered = {key: list(ranges) for key, ranges in self.before.items()}
        for entry in self.entries:
            covered.setdefault(entry.key, []).append(entry.range)
        return covered

    def _directory(self, part: Slice) -> str:
        return directory_of(self.parameters.generation, part.topic, part.partition)


def recovered(store: Store, manifest: Manifest, parameters: TaskParameters) -> tuple[Manifest, list[str]]:
    """Add published files that the manifest lacks since the previous load ended early.

    Also return other files' paths, to delete after writing the manifest.
    """
    committer = ManifestCommitter(store, manifest, parameters, (), before=manifest.covered())
    wholes = {directory_of(parameters.generation, *key): Slice(*key, 0, _OFFSET_MAX) for key in sorted(manifest.begins)}
    listed = store.listed(wholes)
    paths = {entry.path for entry in manifest.entries if entry.path is not None}
    for directory, whole in wholes.items():
        committer.add(whole_files(store, parameters, whole, listed[directory], paths))
    return manifest.with_entries(committer.entries), leftovers(manifest, listed, committer.entries)


def leftovers(manifest: Manifest, listed: Mapping[str, Iterable[str]], more: Collection[ManifestEntry]) -> list[str]:
    referenced = {entry.path for entry in (*manifest.entries, *more)} | {
        replaced.path for replaced in manifest.replaced
    }
    paths = [(f"{directory}/{name}", name) for directory, names in listed.items() for name in names]
    return [
        path for path, name in paths if is_temporary(name) or (range_of(name) is not None and path not in referenced)
    ]


def purge_replaced(store: Store, manifest: Manifest, keep: float) -> Manifest:
    """Delete files replaced over `keep` seconds ago, and unused generations."""
    old = [replaced for replaced in manifest.replaced if replaced.at + keep <= time.time()]
    for file in old:
        store.delete(file.path)
    left = attrs.evolve(manifest, replaced=tuple(replaced for replaced in manifest.replaced if replaced not in old))
    for name in store.directories():
        if is_digits(name) and len(name) >= 5 and int(name) not in left.in_use() and int(name) <= left.generations:
            store.delete_directory(name)
    return left


def _check_unchanged(store: Store, manifest: Manifest) -> None:
    """Raise TargetInUse if another load changed the manifest; local directories are locked instead."""
    if store.is_local:
        return
    text = store.read(MANIFEST)
    if (Manifest.of_json(text).revision if text is not None else "") != manifest.revision:
        raise TargetInUse(f"{store.uri} is in use by another load: its manifest has changed meanwhile")


def write_manifest(store: Store, manifest: Manifest) -> Manifest:
    """Replace the manifest. Raise TargetInUse."""
    _check_unchanged(store, manifest)
    written = attrs.evolve(manifest, revision=uuid.uuid4().hex)
    store.write(MANIFEST, written.to_json())
    return written
