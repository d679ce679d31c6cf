"""Log lines for changes of topics, settings and the members of groups.

Lines about groups are limited per minute, per group and in total.  `--log-level pylogbroker.groups=debug` shows all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping

from twisted.logger import Logger, LogLevel

from pylogbroker.broker.assembly import Broker
from pylogbroker.config import Value, broker_setting
from pylogbroker.config.listeners import LISTENER_PREFIX
from pylogbroker.config.value_kinds import render
from pylogbroker.formatting import counted
from pylogbroker.groups import NewGeneration
from pylogbroker.metadata.delta import ConfigChanged, Delta, PartitionsChanged, TopicCreated, TopicDeleted
from pylogbroker.metadata.image import (
    DEFAULT_BROKER,
    ClusterImage,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
    topic_resource,
)
from pylogbroker.peer_log_limit import PeerLogLimit

_LENGTH_MAX = 200  # of a client's value
log = Logger()
_groups_log = Logger("pylogbroker.groups")


class ChangeLog:
    """Logs the changes in one broker, from `attach` on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._deleted: Callable[[], TopicImage | None] = lambda: None
        """Weak reference: the partitions of a deleted topic may be very many."""
        self._generations = PeerLogLimit(
            broker.runtime.clock, "{host}: {count} more generations within a minute", others="other groups"
        )

    def attach(self) -> None:
        self._broker.metadata.follow(self)
        self._broker.group_service.observe(self.on_new_generation)

    async def stop(self) -> None:
        self._generations.log_suppressed()

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case TopicCreated(topic):
                    _log_created(topic, after.settings(topic_resource(topic.name)))
                case PartitionsChanged(name):
                    _log_added(before.topics[name], after.topics[name])
                case TopicDeleted(topic):
                    self._log_deleted(topic)
                case ConfigChanged(resource, settings):
                    is_of_new_topic = resource.type is ConfigResourceType.TOPICS and resource.name not in before.topics
                    if not is_of_new_topic:
                        _log_settings(resource, before.settings(resource), settings)

    def _log_deleted(self, topic: TopicImage) -> None:
        if topic is not self._deleted():  # the controller announces each retry of a deletion
            log.info(
                "deleted topic {topic} with {partitions}",
                topic=topic.name,
                partitions=counted(len(topic.partitions), "partition"),
            )
        self._deleted = weakref.ref(topic)

    def on_new_generation(self, new: NewGeneration) -> None:
        group = f"group {printable(new.group_id)}"
        _groups_log.emit(
            LogLevel.info if self._generations.is_due(group) else LogLevel.debug,
            "{group}: generation {generation} has {members}{protocol}",
            group=group,
            generation=new.generation,
            members=counted(new.members, "member"),
            protocol=f", assignment by {printable(new.protocol)}" if new.protocol else "",
        )


def _log_created(topic: TopicImage, settings: Mapping[str, str]) -> None:
    log.info(
        "created topic {topic} with {partitions}{settings}",
        topic=topic.name,
        partitions=counted(len(topic.partitions), "partition"),
        settings=f": {shown_changes(_changes({}, settings))}" if settings else "",
    )


def _log_added(before: TopicImage, after: TopicImage) -> None:
    added = len(after.partitions) - len(before.partitions)
    if added:
        log.info(
            "added {added} to topic {topic}, which has {partitions} now",
            added=counted(added, "partition"),
            topic=after.name,
            partitions=len(after.partitions),
        )


def _log_settings(resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    if resource.name == DEFAULT_BROKER:
        whose = "all brokers"
    else:
        whose = f"{resource.type.value.removesuffix('s')} {resource.name}"
    log.info(
        "changed settings of {whose}: {changes}",
        whose=whose,
        changes=shown_changes(_changes(before, after)) or "no value differs",
    )


def shown_changes(changes: Mapping[str, tuple[Value, Value]]) -> str:
    """Format settings with new and old values: `retention.ms=1000 (was 500)`."""
    return ", ".join(_shown(name, *values) for name, values in changes.items())


def printable(text: str) -> str:
    line = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text[:_LENGTH_MAX])
    return line if len(text) <= _LENGTH_MAX else f"{line}..."


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[Value, Value]]:
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return {name: (before.get(name), after.get(name)) for name in differing}


def _shown(name: str, before: Value, after: Value) -> str:
    name_shown = printable(name)
    setting = broker_setting(name)
    if setting.sensitive if setting else name.startswith(LISTENER_PREFIX):
        return f"{name_shown} (not shown)"
    was = "" if before is None else f" (was {printable(render(before) or '')})"
    return f"{name_shown} unset{was}" if after is None else f"{name_shown}={printable(render(after) or '')}{was}"
