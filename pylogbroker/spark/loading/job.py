"""One load, in the driver.

    recover     add published files missing in the manifest
    plan        determine the offsets to load, write the manifest, delete other leftover files
    schedule    tasks work; published files are added and committed
    commit      write the manifest, delete files that do not count

`schedule` is passed in: this module needs no Spark.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.loading.commit import ManifestCommitter, purge_replaced, recovered, write_manifest
from pylogbroker.spark.loading.manifest import MANIFEST, BadManifest, Manifest, ManifestEntry, Part, UnfinishedReplay
from pylogbroker.spark.loading.parquet import packed, text_of, unpacked
from pylogbroker.spark.loading.planner import Planner, Window
from pylogbroker.spark.loading.progress import Progress, Report
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.loading.task import TaskParameters
from pylogbroker.spark.options import ReadOptions
from pylogbroker.wire.messages.list_offsets import LATEST

if TYPE_CHECKING:
    from pyspark import cloudpickle
else:
    cloudpickle = on_first_use("pyspark.cloudpickle")

_Scheduler = Callable[[TaskParameters, tuple[Part, ...], Callable[[], None]], tuple[list[ManifestEntry], list[str]]]
"""Run parts in tasks, call the callback regularly; return entries and failures."""

_ROUNDS_MAX: Final = 3  # concurrent duplicate tasks may leave gaps
_LAG_SECONDS: Final = 2.0  # between lookups of the ends


class LoadFailed(PylogbrokerError):
    """A load ended early. Completed files are kept; the next load continues."""


@attrs.frozen
class Outcome:
    manifest: Manifest
    entries: tuple[ManifestEntry, ...]
    """Entries of this load, and recovered earlier ones."""
    gaps: tuple[ManifestEntry, ...]
    lag: int


@attrs.frozen
class _TargetState:
    before: Manifest | None
    """As written."""
    manifest: Manifest
    """With all published files."""
    recovered: tuple[ManifestEntry, ...] = ()
    leftovers: Collection[str] = ()


@attrs.define
class LoadJob:
    store: Store
    parameters: TaskParameters
    """Generation and topics come with the plan."""
    options: ReadOptions
    window: Window
    schedule: _Scheduler
    report: Report
    keep: float
    """Seconds to keep replaced files."""
    _began: float = attrs.field(factory=time.monotonic, init=False)
    _goals: Mapping[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _ends: Mapping[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _asked: float = attrs.field(default=0.0, init=False)

    def load(self) -> Outcome:
        state = self._target_state()
        with BlockingCluster(self.options.settings) as cluster:
            cluster.reach()
            self._check_schema(state.manifest)
            plan = Planner(cluster, self.options, state.manifest, self.window).plan()
            self._goals = self._ends = plan.ends
            planned = self._written(state, plan.manifest)
            committer = ManifestCommitter(self.store, planned, self._parameters(planned), plan.parts)
            self._work(cluster, committer)
            self._asked = 0.0
            lag = self._lag(cluster, committer)
        gaps = [entry for entry in plan.manifest.entries[len(state.manifest.entries) :] if entry.gap]
        gaps += [entry for entry in committer.entries if entry.gap]
        return Outcome(committer.manifest, (*state.recovered, *committer.entries), tuple(gaps), lag)

    def replay(self) -> Outcome:
        """Reload the window; replace loaded files when complete."""
        state = self._target_state()
        with BlockingCluster(self.options.settings) as cluster:
            cluster.reach()
            manifest, replay = self._replay(cluster, state)
            parameters = attrs.evolve(self._parameters(manifest), generation=replay.generation)
            committer = ManifestCommitter(self.store, manifest, parameters, replay.parts, is_replay=True)
            self._work(cluster, committer)
        gaps = tuple(entry for entry in committer.entries if entry.gap)
        return Outcome(committer.manifest, tuple(committer.entries), gaps, 0)

    def _target_state(self) -> _TargetState:
        if self.store.read(MANIFEST) is None:
            return _TargetState(
                None, Manifest(schema=text_of(self.parameters.schema), arrow=packed(self.parameters.schema))
            )
        before = manifest_of(self.store)
        manifest = purge_replaced(self.store, before, self.keep)
        parameters = attrs.evolve(self._parameters(manifest), schema=unpacked(manifest.arrow))
        now, leftovers = recovered(self.store, manifest, parameters)
        return _TargetState(before, now, now.entries[len(manifest.entries) :], leftovers)

    def _written(self, state: _TargetState, manifest: Manifest) -> Manifest:
        if manifest == state.before and not state.leftovers:
            return manifest
        written = write_manifest(self.store, manifest)
        self.store.for_all(self.store.delete, state.leftovers)
        return written

    def _parameters(self, manifest: Manifest) -> TaskParameters:
        return attrs.evolve(self.parameters, generation=manifest.generation, topics=manifest.topics)

    def _check_schema(self, manifest: Manifest) -> None:
        now = text_of(self.parameters.schema)
        if manifest.schema != now:
            has, would = (text.replace("\n", ", ") for text in (manifest.schema, now))
            raise ConfigError(
                f"{self.store.uri} has the columns {has}, but this load has {would}: load into another directory, or"
                " replay all of it"
            )

    def _replay(self, cluster: BlockingCluster, state: _TargetState) -> tuple[Manifest, UnfinishedReplay]:
        request_key, manifest = self._request_key(), state.manifest
        if manifest.replay is None or manifest.replay.request_key != request_key:
            parts = Planner(cluster, self.options, manifest, self.window).replay()
            if manifest.left_by(parts):
                self._check_schema(manifest)
            schema = self.parameters.schema
            manifest = manifest.with_replay(request_key, text_of(schema), packed(schema), parts)
        manifest = purge_replaced(self.store, self._written(state, manifest), self.keep)
        if manifest.replay is None:
            raise LoadFailed("the replay has been abandoned")
        return manifest, manifest.replay

    def _request_key(self) -> str:
        given = {name: text for name, text in self.parameters.given.items() if name.startswith("subscribe")}
        mapping = _fingerprint(self.parameters.mapping)
        return json.dumps([given, self.window.since, self.window.until, text_of(self.parameters.schema), mapping])

    def _work(self, cluster: BlockingCluster, committer: ManifestCommitter) -> None:
        committer.add_published()
        try:
            for _ in range(_ROUNDS_MAX):
                self._report_progress(cluster, committer)
                missing = committer.missing()
                if not missing:
                    break
                self._round(cluster, committer, tuple(missing))
        finally:
            committer.commit()
            committer.delete_leftovers()
        self._report_progress(cluster, committer)
        if committer.missing():
            where = committer.missing()[0].slice
            raise LoadFailed(
                f"{where.topic}/{where.partition}, offsets {where.start} to {where.end}, is not loaded, but no task"
                f" failed: check that {self.store.uri} is a directory that all of Spark's processes share"
            )

    def _round(self, cluster: BlockingCluster, committer: ManifestCommitter, missing: tuple[Part, ...]) -> None:
        def tick() -> None:
            committer.add_published()
            committer.commit_if_due()
            self._report_progress(cluster, committer)

        try:
            entries, failures = self.schedule(committer.parameters, missing, tick)
        finally:
            committer.add_published()
        committer.add(entry for entry in entries if entry.path is None)  # files count when listed
        if failures:
            raise LoadFailed("; ".join(dict.fromkeys(failures)))

    def _report_progress(self, cluster: BlockingCluster, committer: ManifestCommitter) -> None:
        done = committer.entries
        total = sum(len(part.slice) for part in committer.parts)
        left = sum(len(part.slice) for part in committer.missing())
        progress = Progress(
            records=sum(entry.records for entry in done),
            bytes=sum(entry.bytes for entry in done) + committer.unfinished_bytes,
            files=sum(entry.path is not None for entry in done),
            offsets=total - left,
            total=total,
            lag=self._lag(cluster, committer),
            seconds=time.monotonic() - self._began,
        )
        self.report(progress)

    def _lag(self, cluster: BlockingCluster, committer: ManifestCommitter) -> int:
        if not committer.is_replay and time.monotonic() - self._asked > _LAG_SECONDS:
            self._ask_ends(cluster)
            self._asked = time.monotonic()
        behind = sum(max(0, end - self._goals[key]) for key, end in self._ends.items())
        return behind + sum(len(part.slice) for part in committer.missing())

    def _ask_ends(self, cluster: BlockingCluster) -> None:
        try:
            ends = cluster.offsets(dict.fromkeys(self._goals, LATEST))
        except PylogbrokerError:  # informative only: tasks report errors
            return
        self._ends = {key: end.offset for key, end in ends.items()}


def manifest_of(store: Store) -> Manifest:
    """Raise BadManifest without a manifest."""
    text = store.read(MANIFEST)
    if text is None:
        raise BadManifest(f"{store.uri} has no {MANIFEST}: nothing has been loaded there")
    try:
        return Manifest.of_json(text)
    except BadManifest as error:
        raise BadManifest(f"{store.uri}/{MANIFEST}: {error}") from error


def _fingerprint(mapping: object) -> str:
    """Hash a mapping's code and source, to recognize it if possible."""
    digest = hashlib.sha256()
    try:
        digest.update(cloudpickle.dumps(mapping))  # type: ignore[no-untyped-call]
        digest.update(Path(inspect.getsourcefile(_code_of(mapping)) or "").read_bytes())
    except (OSError, TypeError, AttributeError, pickle.PicklingError):
        pass  # no source, e.g. a built-in
    return digest.hexdigest()


def _code_of(mapping: object) -> type | Callable[..., object]:
    return mapping if inspect.isroutine(mapping) or inspect.isclass(mapping) else type(mapping)
