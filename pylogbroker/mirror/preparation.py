"""Preparation of the target: topics, partitions, and the positions topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from twisted.logger import Logger

from pylogbroker.client.admin import AdminClient, ItemsFailed, NewTopic
from pylogbroker.client.errors import is_retriable
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.mirror.errors import MirrorError, TopicStopped
from pylogbroker.mirror.positions import TOPIC_SETTINGS
from pylogbroker.mirror.topics import MirroredTopic, TopicComparison

log = Logger()

PARTITIONS_AT_ONCE: Final = 500
_NAMES_SHOWN: Final = 5
_RIGHTS: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


SettingsOf = Callable[[Iterable[str]], Awaitable[Mapping[str, Mapping[str, str]]]]


@attrs.frozen(eq=False, repr=False)
class TargetPreparation:
    """`replication_factor` is that of created topics; -1 is the target's default.

    `settings_of` returns the settings that some topics of the source have of their own, as far as these follow.
    """

    _admin: AdminClient
    _replication_factor: int
    _settings_of: SettingsOf

    async def make_positions_topic(self, name: str, existing: Mapping[str, Any]) -> None:
        """Create the topic unless it exists, also if another mirror creates it meanwhile."""
        if name in existing:
            return
        topic = NewTopic(name, 1, self._replication_factor, configs=dict(TOPIC_SETTINGS))
        try:
            await self._admin.topics.create([topic])
        except KafkaError as error:
            if error.code in _RIGHTS:
                raise MirrorError(
                    f"topic {name} cannot be created in the target: the mirror's user needs the right to create it, and"
                    " to read and write it"
                ) from error
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def carry_out(self, plan: TopicComparison) -> dict[str, TopicStopped]:
        """Create missing topics and partitions; return the topics for which that fails for good, with errors."""
        stopped: dict[str, TopicStopped] = {}
        if plan.missing:
            stopped |= await self._create(plan.missing)
        if plan.too_small:
            stopped |= await self._grow(plan.too_small)
        return stopped

    async def _create(self, topics: Mapping[str, MirroredTopic]) -> dict[str, TopicStopped]:
        stopped: dict[str, TopicStopped] = {}
        for some in _in_pieces(topics):
            stopped |= await self._create_some(some)
        return stopped

    async def _create_some(self, topics: Mapping[str, MirroredTopic]) -> dict[str, TopicStopped]:
        settings = await self._settings_of(topics)
        new = [self._new_topic(topic, settings.get(name, {})) for name, topic in topics.items()]
        errors = await _errors(self._admin.topics.create(new), [topic.name for topic in new])
        rejected = [
            self._new_topic(topic, {}) for topic in topics.values() if _is_of_settings(errors.get(topic.target))
        ]
        if rejected:
            names = [topic.name for topic in rejected]
            log.warn("the target rejects settings of new topics, which follow one by one: {errors}", errors=errors)
            later = await _errors(self._admin.topics.create(rejected), names)
            errors = {name: error for name, error in errors.items() if name not in names} | later
        created = [topic.target for topic in topics.values() if topic.target not in errors]
        if created:
            log.info("created in the target: {topics}", topics=_listed(created))
        return _stopped(topics, errors, "cannot be created in the target")

    def _new_topic(self, topic: MirroredTopic, settings: Mapping[str, str]) -> NewTopic:
        return NewTopic(topic.target, len(topic.source.partitions), self._replication_factor, configs=settings)

    async def _grow(self, topics: Mapping[str, MirroredTopic]) -> dict[str, TopicStopped]:
        totals = {topic.target: len(topic.source.partitions) for topic in topics.values()}
        errors = await _errors(self._admin.topics.add_partitions(totals), list(totals))
        for topic, total in totals.items():
            if topic not in errors:
                log.info("{topic} has {total} partitions in the target now", topic=topic, total=total)
        return _stopped(topics, errors, "cannot get as many partitions in the target as it has in the source")


def _listed(names: list[str]) -> str:
    others = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown}, and {others} others" if others > 0 else shown


def _in_pieces(topics: Mapping[str, MirroredTopic]) -> Iterator[dict[str, MirroredTopic]]:
    """Yield topics with so many partitions that a cluster creates them within the time of a request."""
    some: dict[str, MirroredTopic] = {}
    partitions = 0
    for name, topic in topics.items():
        some[name] = topic
        partitions += len(topic.source.partitions)
        if partitions >= PARTITIONS_AT_ONCE:
            yield some
            some, partitions = {}, 0
    if some:
        yield some


async def _errors(call: Any, names: list[str]) -> dict[str, PylogbrokerError]:
    try:
        await call
    except ItemsFailed as error:
        return {name: why for name, why in error.errors.items() if isinstance(why, PylogbrokerError)}
    except KafkaError as error:
        if len(names) != 1:
            raise
        return {names[0]: error}
    return {}


def _is_of_settings(error: PylogbrokerError | None) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_CONFIG


def _stopped(
    topics: Mapping[str, MirroredTopic], errors: Mapping[str, PylogbrokerError], what: str
) -> dict[str, TopicStopped]:
    stopped: dict[str, TopicStopped] = {}
    for name, topic in topics.items():
        error = errors.get(topic.target)
        code = error.code if isinstance(error, KafkaError) else None
        if error is None or code is ErrorCode.TOPIC_ALREADY_EXISTS or is_retriable(error):
            continue
        cure = "; the mirror's user needs the right to do that" if code in _RIGHTS else ""
        stopped[name] = TopicStopped(name, f"{topic.target} {what}: {error}{cure}")
    return stopped
