"""Mirrors that the options of `pylogbroker mirror` describe."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import attrs

from pylogbroker.cli import profiles
from pylogbroker.config import properties
from pylogbroker.errors import ConfigError
from pylogbroker.mirror.configuration import mirrors_of, replication_policy, with_topics
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.mirror.sync_settings import SyncSettings

_FAST_FAILURE: Final = {"bootstrap.connect.max.ms": "5000"}


def chosen_mirrors(
    source: str | None, target: str | None, topics: str | None, file: str | None, options: dict[str, Any]
) -> list[MirrorSettings]:
    """Return the mirror between two clusters, or those of a file. Raise ConfigError."""
    if file is None:
        mirrors = [_mirror(source or "", target or "", options)]
    else:
        of_file = mirrors_of(properties.read(file), source or "", target or "")
        mirrors = [_failing_fast(settings) for settings in of_file]
    return [_with_options(settings, topics, options) for settings in mirrors]


def _mirror(source: str, target: str, options: dict[str, Any]) -> MirrorSettings:
    return MirrorSettings(
        _cluster("--from", source, options["from_alias"]), _cluster("--to", target, options["to_alias"])
    )


def _failing_fast(settings: MirrorSettings) -> MirrorSettings:
    """Return settings with which a cluster that cannot be reached ends the command; a service tries again."""
    clusters = [
        attrs.evolve(cluster, settings={**_FAST_FAILURE, **cluster.settings})
        for cluster in (settings.source, settings.target)
    ]
    return attrs.evolve(settings, source=clusters[0], target=clusters[1])


def _with_options(settings: MirrorSettings, topics: str | None, options: dict[str, Any]) -> MirrorSettings:
    changes: dict[str, Any] = {}
    if options["names"] is not None:
        changes["policy"] = replication_policy(options["names"])
    if options["max_bytes_per_second"] is not None:
        changes["bytes_per_second_max"] = options["max_bytes_per_second"]
    if options["replication_factor"] is not None:
        changes["replication_factor"] = options["replication_factor"]
    if options["at_least_once"]:
        changes["exactly_once"] = False
    if options["restart_recreated"]:
        changes["restart_recreated"] = True
    changes["sync"] = _sync(settings.sync or SyncSettings(), options)
    settings = attrs.evolve(settings, **changes)
    return settings if topics is None else with_topics(settings, topics)


def _sync(sync: SyncSettings, options: dict[str, Any]) -> SyncSettings | None:
    if options["records_only"]:
        return None
    if options["groups"] is not None:
        sync = sync.with_groups(options["groups"])
    return sync.with_acls() if options["acls"] else sync


def _cluster(option: str, text: str, alias: str | None) -> MirroredCluster:
    """Return the cluster of a profile or an address."""
    settings = _profile(text)
    if settings is None:
        if ":" not in text:
            raise ConfigError(f"{option}: there is no profile {text}; an address is HOST:PORT")
        return MirroredCluster(text, alias or "", _FAST_FAILURE)
    bootstrap = settings.pop("bootstrap.servers", "")
    return MirroredCluster(bootstrap, alias or text, {**_FAST_FAILURE, **settings})


def _profile(name: str) -> dict[str, str] | None:
    path = profiles.default_path()
    if path is None:
        return None
    with suppress(FileNotFoundError):
        file = profiles.ProfileFile.read(path)
        if name in file.profiles:
            return dict(file.settings(name))
    return None
