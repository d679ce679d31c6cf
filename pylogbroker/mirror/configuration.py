"""Mirrors from a properties file, with the names of MirrorMaker 2 where it has the setting.

    clusters = east, offline                        aliases
    east.bootstrap.servers = east-1:9092            settings of a client, for all requests to a cluster
    offline.security.protocol = SSL                 without an alias, for all clusters
    east->offline.enabled = true                    each mirror is named
    east->offline.topics = orders, clicks.*         expressions of Java; settings of one mirror,
    topics.exclude = .*\\.tmp                        or of all

| setting                                 | meaning                                                                 |
|-----------------------------------------|-------------------------------------------------------------------------|
| `topics`, `topics.exclude`              | which topics are copied; whole names match                              |
| `replication.policy.class`              | `same`, `prefix`, another plugin, or the class of MirrorMaker 2         |
| `replication.policy.separator`          | of `prefix`                                                             |
| `replication.factor`                    | of topics that are created; -1: the target's default                    |
| `refresh.topics.interval.seconds`       | how often topics are compared                                           |
| `exactly.once.source.support`           | `disabled`: positions are written after the records, not with them      |
| `topics.recreated`                      | `stop`, or `restart`: what a topic does that was deleted and made again |
| `max.bytes.per.second`                  | limit of a mirror; 0: none                                              |
| `commit.interval.ms`                    | least time between commits                                              |

Settings of groups, of topics' settings, of ACLs and of heartbeats are those of `sync_settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from twisted.logger import Logger

from pylogbroker.client.plugin_lookup import PluginKind, resolve_plugin
from pylogbroker.client.settings import CLIENT, CONSUMER, PRODUCER
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IReplicationPolicy, IReplicationPolicyFactory
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.mirror.sync_settings import NAMES as SYNC_NAMES
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.mirror.topics import EXCLUDED

log = Logger()

POLICY: Final[PluginKind[IReplicationPolicy]] = PluginKind(
    "replication policy", IReplicationPolicy, IReplicationPolicyFactory
)
_POLICY_SETTING: Final = "replication.policy.class"
_CLASSES: Final = {"DefaultReplicationPolicy": "prefix", "IdentityReplicationPolicy": "same"}
_CLIENTS: Final = ("admin.", "consumer.", "producer.")
_SETTINGS: Final = frozenset(
    {
        "topics",
        "topics.exclude",
        "topics.blacklist",
        _POLICY_SETTING,
        "replication.policy.separator",
        "replication.factor",
        "refresh.topics.interval.seconds",
        "exactly.once.source.support",
        "topics.recreated",
        "max.bytes.per.second",
        "commit.interval.ms",
        "enabled",
        *SYNC_NAMES,
    }
)


def replication_policy(name: str, separator: str = "") -> IReplicationPolicy:
    """Return the policy of a name, or of a class of MirrorMaker 2; raise ConfigError for an unknown one."""
    simple = name.rpartition(".")[2]
    plugin = _CLASSES.get(simple, name)
    if plugin == "prefix" and separator:
        plugin = f"prefix:{separator}"
    return resolve_plugin(POLICY, _POLICY_SETTING, plugin, {}).plugin


def mirrors_of(properties: Mapping[str, str], source: str = "", target: str = "") -> list[MirrorSettings]:
    """Return the enabled mirrors of a file, or those from `source` and to `target`. Raise ConfigError without any."""
    names = {name: value.strip() for name, value in properties.items()}
    aliases = _listed(names.pop("clusters", ""))
    if not aliases:
        raise ConfigError("clusters: is not set; expected the aliases of clusters, such as clusters=east,offline")
    for alias in filter(None, (source, target)):
        if alias not in aliases:
            raise ConfigError(f"clusters: there is no {alias}; the clusters are {', '.join(aliases)}")
    _check_values(names)
    flows = [
        (first, second)
        for first in aliases
        for second in aliases
        if first != second
        and source in ("", first)
        and target in ("", second)
        and (_boolean(names, f"{first}->{second}.enabled") or (source and target))
    ]
    if not flows:
        example = f"{source or aliases[0]}->{target or aliases[-1]}"
        raise ConfigError(f"no mirror is enabled: set {example}.enabled=true")
    common = {name: value for name, value in names.items() if "->" not in name and not _is_of(name, aliases)}
    clusters = {alias: _cluster(alias, names, common) for alias in {alias for flow in flows for alias in flow}}
    _note_unused(names, aliases)
    return [
        _mirror(
            clusters[first], clusters[second], {**common, **_of_target(names, second), **_of_flow(names, first, second)}
        )
        for first, second in flows
    ]


def _mirror(source: MirroredCluster, target: MirroredCluster, names: Mapping[str, str]) -> MirrorSettings:
    # a file that MirrorMaker reads, too, has its default
    policy = names.get(_POLICY_SETTING) or "prefix"
    given: dict[str, Any] = {"policy": replication_policy(policy, names.get("replication.policy.separator", ""))}
    if "topics" in names:
        given["topics"] = tuple(_listed(names["topics"]))
    excluded = names.get("topics.exclude", names.get("topics.blacklist"))
    given["topics_excluded"] = EXCLUDED if excluded is None else tuple(_listed(excluded))
    if "replication.factor" in names:
        given["replication_factor"] = _integer(names, "replication.factor", -1)
    if "refresh.topics.interval.seconds" in names:
        given["refresh_interval"] = float(_integer(names, "refresh.topics.interval.seconds", 1))
    if "max.bytes.per.second" in names:
        given["bytes_per_second_max"] = _integer(names, "max.bytes.per.second", 0)
    if "commit.interval.ms" in names:
        given["commit_interval"] = _integer(names, "commit.interval.ms", 0) / 1000
    given["sync"] = SyncSettings.of(names)
    given["exactly_once"] = _choice(names, "exactly.once.source.support", ("enabled", "disabled")) == "enabled"
    given["restart_recreated"] = _choice(names, "topics.recreated", ("stop", "restart")) == "restart"
    return MirrorSettings(source, target, **given)


def _cluster(alias: str, names: Mapping[str, str], common: Mapping[str, str]) -> MirroredCluster:
    own = _under(names, f"{alias}.")
    for kind in _CLIENTS:
        own = {**_under(own, kind), **own}
    bootstrap = own.pop("bootstrap.servers", "")
    if not bootstrap:
        raise ConfigError(f"{alias}.bootstrap.servers: is not set; expected host:port, separated by commas")
    shared = {name: value for name, value in common.items() if name in CLIENT and name != "bootstrap.servers"}
    settings = {**shared, **{name: value for name, value in own.items() if _is_of_client(name)}}
    return MirroredCluster(bootstrap, alias, settings)


def _of_target(names: Mapping[str, str], alias: str) -> dict[str, str]:
    """Return settings of mirrors that are given for their target, as exactly.once.source.support is."""
    return {name: value for name, value in _under(names, f"{alias}.").items() if name in _SETTINGS}


def _of_flow(names: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    return _under(names, f"{source}->{target}.")


def _note_unused(names: Mapping[str, str], aliases: Iterable[str]) -> None:
    unused = sorted(name for name in names if not _is_used(name, aliases))
    if unused:
        log.info("settings that mirrors do not use: {names}", names=", ".join(unused))


def _is_used(name: str, aliases: Iterable[str]) -> bool:
    if "->" in name:
        return name.partition(".")[2] in _SETTINGS or any(name.endswith(f".{setting}") for setting in _SETTINGS)
    for alias in aliases:
        rest = name.removeprefix(f"{alias}.")
        if rest != name:
            for kind in _CLIENTS:
                rest = rest.removeprefix(kind)
            return _is_of_client(rest) or rest in _SETTINGS
    return name in _SETTINGS or name in CLIENT


def _is_of_client(name: str) -> bool:
    return name in CLIENT or name in CONSUMER or name in PRODUCER


def _is_of(name: str, aliases: Iterable[str]) -> bool:
    return any(name.startswith(f"{alias}.") for alias in aliases)


def _under(names: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in names.items() if name.startswith(prefix)}


def _listed(text: str) -> list[str]:
    return list(_parts(text))


def _parts(text: str) -> Iterator[str]:
    for part in text.split(","):
        if part.strip():
            yield part.strip()


def _check_values(names: Mapping[str, str]) -> None:
    for name, value in names.items():
        if value.startswith("${") and ":" in value:
            raise ConfigError(f"{name}: configuration providers are not supported; write the value into the file")


def _boolean(names: Mapping[str, str], name: str) -> bool:
    return _choice(names, name, ("false", "true")) == "true"


def _choice(names: Mapping[str, str], name: str, choices: tuple[str, str]) -> str:
    value = names.get(name, choices[0]).lower()
    if name == "exactly.once.source.support" and value == "preparing":
        return "disabled"
    if value not in choices:
        raise ConfigError(f"{name}: {names[name]!r} is not accepted; expected {' or '.join(choices)}")
    return value


def _integer(names: Mapping[str, str], name: str, least: int) -> int:
    text = names[name]
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 1 << 63:
        raise ConfigError(f"{name}: {text!r} is not accepted; expected a number from {least} on")
    return number


def with_topics(settings: MirrorSettings, expressions: str) -> MirrorSettings:
    """Return settings with other topics; commas separate expressions."""
    return attrs.evolve(settings, topics=tuple(_listed(expressions)))
