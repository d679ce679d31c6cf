"""Run one load in the driver: from the present manifest to the next.

    take up     add published files that the manifest lacks
    plan        determine the offsets to load, write the manifest, delete other leftover files
    spread      tasks work; meanwhile, published files are added and committed
    commit      write the manifest, and delete files that do not count

The `spread` function is passed in, so this module needs no Spark.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import attrs

from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.brokers.cluster import LATEST, Cluster
from pylogbroker.spark.loading.accounts import Accounts, taken_up, tidied, write_manifest
from pylogbroker.spark.loading.filling import Job
from pylogbroker.spark.loading.manifest import MANIFEST, BadManifest, Entry, Manifest, Part, Replay
from pylogbroker.spark.loading.parquet import packed, text_of, unpacked
from pylogbroker.spark.loading.planning import Planner, Window
from pylogbroker.spark.loading.progress import Progress, Report
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.options import ReadOptions

Spread = Callable[[Job, tuple[Part, ...], Callable[[], None]], tuple[list[Entry], list[str]]]
"""Run a job's parts in tasks, call the callback regularly, and return entries and failures."""

_ROUNDS: Final = 3  # tasks that ran twice at once may have left gaps
_OFTEN: Final = 2.0  # seconds between lookups of the logs' ends


class LoadFailed(PylogbrokerError):
    """A load ended early. Completed files are kept, and the next load continues."""


@attrs.frozen
class Outcome:
    """Result of a load."""

    manifest: Manifest
    entries: tuple[Entry, ...]
    """Entries of this load, and recovered ones of an earlier load."""
    gaps: tuple[Entry, ...]
    lag: int


@attrs.frozen
class _There:
    before: Manifest | None
    """Manifest as written."""
    manifest: Manifest
    """Manifest with all published files."""
    taken_up: tuple[Entry, ...] = ()
    """Recovered entries."""
    litter: Collection[str] = ()
    """Paths of files that do not count."""


@attrs.define
class Run:
    store: Store
    job: Job
    """Parameters of all parts; generation and topics come with the plan."""
    options: ReadOptions
    window: Window
    spread: Spread
    report: Report
    keep: float
    """Seconds for which replaced files are kept."""
    _began: float = attrs.field(factory=time.monotonic, init=False)
    _goals: Mapping[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _ends: Mapping[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _asked: float = attrs.field(default=0.0, init=False)

    def load(self) -> Outcome:
        """Load new records."""
        there = self._there()
        with Cluster(self.options.settings) as cluster:
            cluster.reach()
            self._check_schema(there.manifest)
            plan = Planner(cluster, self.options, there.manifest, self.window).plan()
            self._goals = self._ends = plan.ends
            planned = self._written(there, plan.manifest)
            accounts = Accounts(self.store, planned, self._job(planned), plan.parts)
            self._work(cluster, accounts)
            self._asked = 0.0
            lag = self._lag(cluster, accounts)
        gaps = [entry for entry in plan.manifest.entries[len(there.manifest.entries) :] if entry.gap]
        gaps += [entry for entry in accounts.entries if entry.gap]
        return Outcome(accounts.manifest, (*there.taken_up, *accounts.entries), tuple(gaps), lag)

    def replay(self) -> Outcome:
        """Reload the window, and replace the loaded files when the replay is complete."""
        there = self._there()
        with Cluster(self.options.settings) as cluster:
            cluster.reach()
            manifest, replay = self._replay(cluster, there)
            job = attrs.evolve(self._job(manifest), generation=replay.generation)
            accounts = Accounts(self.store, manifest, job, replay.parts, is_replay=True)
            self._work(cluster, accounts)
        gaps = tuple(entry for entry in accounts.entries if entry.gap)
        return Outcome(accounts.manifest, tuple(accounts.entries), gaps, 0)

    # -- what there is -------------------------------------------------------------------------------------------

    def _there(self) -> _There:
        if self.store.read(MANIFEST) is None:
            return _There(None, Manifest(schema=text_of(self.job.schema), arrow=packed(self.job.schema)))
        before = manifest_of(self.store)
        manifest = tidied(self.store, before, self.keep)
        job = attrs.evolve(self._job(manifest), schema=unpacked(manifest.arrow))
        now, litter = taken_up(self.store, manifest, job)
        return _There(before, now, now.entries[len(manifest.entries) :], litter)

    def _written(self, there: _There, manifest: Manifest) -> Manifest:
        """Write the manifest if it has changed; then delete leftover files."""
        if manifest == there.before and not there.litter:
            return manifest
        written = write_manifest(self.store, manifest)
        self.store.each(self.store.delete, there.litter)
        return written

    def _job(self, manifest: Manifest) -> Job:
        return attrs.evolve(self.job, generation=manifest.generation, topics=manifest.topics)

    def _check_schema(self, manifest: Manifest) -> None:
        now = text_of(self.job.schema)
        if manifest.schema != now:
            has, would = (text.replace("\n", ", ") for text in (manifest.schema, now))
            raise ConfigError(
                f"{self.store.uri} has the columns {has}, but this load has {would}: load into another directory, or"
                " replay all of it"
            )

    def _replay(self, cluster: Cluster, there: _There) -> tuple[Manifest, Replay]:
        """Continue an unfinished replay of the same request, or start a new one."""
        asked, manifest = self._question(), there.manifest
        if manifest.replay is None or manifest.replay.asked != asked:
            parts = Planner(cluster, self.options, manifest, self.window).replay()
            if manifest.left_by(parts):
                self._check_schema(manifest)
            schema = self.job.schema
            manifest = manifest.with_replay(asked, text_of(schema), packed(schema), parts)
        manifest = tidied(self.store, self._written(there, manifest), self.keep)
        if manifest.replay is None:
            raise LoadFailed("the replay has been abandoned")
        return manifest, manifest.replay

    def _question(self) -> str:
        given = {name: text for name, text in self.job.given.items() if name.startswith("subscribe")}
        mapping = _fingerprint(self.job.mapping)
        return json.dumps([given, self.window.since, self.window.until, text_of(self.job.schema), mapping])

    # -- work ----------------------------------------------------------------------------------------------------

    def _work(self, cluster: Cluster, accounts: Accounts) -> None:
        accounts.look()
        try:
            for _ in range(_ROUNDS):
                self._tell(cluster, accounts)
                missing = accounts.missing()
                if not missing:
                    break
                self._round(cluster, accounts, tuple(missing))
        finally:
            accounts.commit()
            accounts.sweep()
        self._tell(cluster, accounts)
        if accounts.missing():
            where = accounts.missing()[0].slice
            raise LoadFailed(
                f"{where.topic}/{where.partition}, offsets {where.start} to {where.end}, is not loaded, but no task"
                f" failed: check that {self.store.uri} is a directory that all of Spark's processes share"
            )

    def _round(self, cluster: Cluster, accounts: Accounts, missing: tuple[Part, ...]) -> None:
        def tick() -> None:
            accounts.look()
            accounts.commit_now_and_then()
            self._tell(cluster, accounts)

        try:
            entries, failures = self.spread(accounts.job, missing, tick)
        finally:
            accounts.look()
        accounts.add(entry for entry in entries if entry.path is None)  # files count when they are listed
        if failures:
            raise LoadFailed("; ".join(dict.fromkeys(failures)))

    def _tell(self, cluster: Cluster, accounts: Accounts) -> None:
        done = accounts.entries
        total = sum(len(part.slice) for part in accounts.parts)
        left = sum(len(part.slice) for part in accounts.missing())
        progress = Progress(
            records=sum(entry.records for entry in done),
            bytes=sum(entry.bytes for entry in done) + accounts.unfinished_bytes,
            files=sum(entry.path is not None for entry in done),
            offsets=total - left,
            total=total,
            lag=self._lag(cluster, accounts),
            seconds=time.monotonic() - self._began,
        )
        self.report(progress)

    def _lag(self, cluster: Cluster, accounts: Accounts) -> int:
        """Return the number of missing offsets, by the last known ends."""
        if not accounts.is_replay and time.monotonic() - self._asked > _OFTEN:
            self._ask_ends(cluster)
            self._asked = time.monotonic()
        behind = sum(max(0, end - self._goals[key]) for key, end in self._ends.items())
        return behind + sum(len(part.slice) for part in accounts.missing())

    def _ask_ends(self, cluster: Cluster) -> None:
        try:
            found = cluster.offsets(dict.fromkeys(self._goals, LATEST))
        except PylogbrokerError:  # the lag is only informative; the tasks report errors
            return
        self._ends = {key: each.offset for key, each in found.items()}


def manifest_of(store: Store) -> Manifest:
    """Return the manifest of a directory; raise BadManifest if there is none."""
    text = store.read(MANIFEST)
    if text is None:
        raise BadManifest(f"{store.uri} has no {MANIFEST}: nothing has been loaded there")
    try:
        return Manifest.of_json(text)
    except BadManifest as error:
        raise BadManifest(f"{store.uri}/{MANIFEST}: {error}") from error


def _fingerprint(mapping: object) -> str:
    """Hash a mapping's code and source, to recognize the same mapping as far as possible."""
    from pyspark import cloudpickle

    found = hashlib.sha256()
    try:
        found.update(cloudpickle.dumps(mapping))  # type: ignore[no-untyped-call]
        found.update(Path(inspect.getsourcefile(_code_of(mapping)) or "").read_bytes())
    except (OSError, TypeError, AttributeError, pickle.PicklingError):
        pass  # it has no source, e.g. a built-in
    return found.hexdigest()


def _code_of(mapping: object) -> type | Callable[..., object]:
    return mapping if inspect.isroutine(mapping) or inspect.isclass(mapping) else type(mapping)
