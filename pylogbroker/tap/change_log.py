"""Log lines for changes of topics, settings and the members of groups.

Lines about groups are limited, per group and in total: after a number of generations within a minute, the log only
counts the rest.  `--log-level pylogbroker.groups=debug` shows all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twisted.logger import Logger, LogLevel

from pylogbroker.broker.assembly import Broker
from pylogbroker.config import BROKER, ConfigSource, Value
from pylogbroker.config.value_kinds import render
from pylogbroker.groups import NewGeneration
from pylogbroker.metadata.topic_names import Topic
from pylogbroker.net.limits import PeerLogLimit
from pylogbroker.storage.formatting import counted

_LENGTH_MAX = 200  # characters of a value that a client chose
log = Logger()
groups_log = Logger("pylogbroker.groups")


class ChangeLog:
    """Logs the changes in one broker, from `attach` on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._deleted: Topic | None = None
        self._generations = PeerLogLimit(
            broker.runtime.clock, "{host}: {count} more generations within a minute", others="other groups"
        )

    def attach(self) -> None:
        """Subscribe to changes; the present state is where they start."""
        self._overrides = {topic.name: topic.overrides for topic in self._broker.catalog.topics.values()}
        self._broker.catalog.subscribe(self)
        self._broker.dynamic_settings.observe(self.on_settings_changed)
        self._broker.group_service.observe(self.on_new_generation)

    async def stop(self) -> None:
        """Log how many lines were left out, and cancel the timer."""
        self._generations.log_suppressed()

    # -- topics ----------------------------------------------------------------------------------------------------

    def on_topic_created(self, topic: Topic) -> None:
        self._overrides[topic.name] = topic.overrides
        log.info(
            "created topic {topic} with {partitions}{settings}",
            topic=topic.name,
            partitions=counted(len(topic.partitions), "partition"),
            settings=f": {shown_changes(_changes({}, topic.overrides))}" if topic.overrides else "",
        )

    def on_topic_deleted(self, topic: Topic) -> None:
        self._overrides.pop(topic.name, None)
        if topic is not self._deleted:  # the broker retries an unfinished deletion, and announces it each time
            log.info(
                "deleted topic {topic} with {partitions}",
                topic=topic.name,
                partitions=counted(len(topic.partitions), "partition"),
            )
        self._deleted = topic

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> None:
        log.info(
            "added {added} to topic {topic}, which has {partitions} now",
            added=counted(len(partitions), "partition"),
            topic=topic.name,
            partitions=len(topic.partitions),
        )

    def on_config_changed(self, topic: Topic) -> None:
        changes = _changes(self._overrides.get(topic.name, {}), topic.overrides)
        self._overrides[topic.name] = topic.overrides
        log.info(
            "changed settings of topic {topic}: {changes}",
            topic=topic.name,
            changes=shown_changes(changes) or "no value differs",
        )

    # -- settings --------------------------------------------------------------------------------------------------

    def on_settings_changed(self, layer: ConfigSource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Log that a client changed the dynamic settings of this broker or of all."""
        log.info(
            "changed settings of {whom}: {changes}",
            whom=f"broker {self._broker.node.id}" if layer is ConfigSource.DYNAMIC_BROKER_CONFIG else "all brokers",
            changes=shown_changes(_changes(before, after)) or "no value differs",
        )

    # -- groups ----------------------------------------------------------------------------------------------------

    def on_new_generation(self, new: NewGeneration) -> None:
        """Log that a group has a new generation."""
        group = f"group {printable(new.group_id)}"
        groups_log.emit(
            LogLevel.info if self._generations.is_due(group) else LogLevel.debug,
            "{group}: generation {generation} has {members}{protocol}",
            group=group,
            generation=new.generation,
            members=counted(new.members, "member"),
            protocol=f", assignment by {printable(new.protocol)}" if new.protocol else "",
        )


def shown_changes(changes: Mapping[str, tuple[Value, Value]]) -> str:
    """Format settings with their new and old values: `retention.ms=1000 (was 500)`."""
    return ", ".join(_shown(name, *values) for name, values in changes.items())


def printable(text: str) -> str:
    """Format a text that a client chose as one line of bounded length."""
    line = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_LENGTH_MAX])
    return line if len(text) <= _LENGTH_MAX else f"{line}..."


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[Value, Value]]:
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return {name: (before.get(name), after.get(name)) for name in differing}


def _shown(name: str, before: Value, after: Value) -> str:
    name_shown = printable(name)
    if name in BROKER and BROKER[name].sensitive:
        return f"{name_shown} (not shown)"
    was = "" if before is None else f" (was {printable(render(before) or '')})"
    return f"{name_shown} unset{was}" if after is None else f"{name_shown}={printable(render(after) or '')}{was}"
