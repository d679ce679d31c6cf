"""Topics of a mirror: which ones it copies, and what the target lacks. No I/O.

topic of the source                              result
----------------------------------------------   ------------------------------------------------------------
not chosen, internal, or of a mirror itself      left out
comes from the target, by its name               left out, or it would go round in a loop
missing in the target                            created with as many partitions
with fewer partitions in the target              the target's topic gets more
two topics that get the same name                the second one stops with an error
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IReplicationPolicy
from pylogbroker.java.pattern import Pattern, TooManySteps
from pylogbroker.java.pattern_syntax import PatternError
from pylogbroker.mirror.errors import TopicStopped

EXCLUDED: Final = (r".*[\-.]internal", r".*[\-.]replica", r"__.*")
"""Topics that no mirror copies, unless other expressions are configured; as in MirrorMaker 2."""
_HEARTBEATS: Final = "heartbeats"
"""Each cluster has this topic of MirrorMaker 2. So a policy that keeps names leaves it out."""
_HOPS_MAX: Final = 32
_NAMES_MAX: Final = 100_000
_NAMES_SHOWN: Final = 5


@attrs.frozen(eq=False, repr=False)
class TopicChoice:
    """Topics whose whole names match one of Java's regular expressions, and none of the excluded ones."""

    _included: tuple[Pattern, ...]
    _excluded: tuple[Pattern, ...]
    _known_names: dict[str, bool] = attrs.field(factory=dict, init=False)
    """Whether names match, which are compared again and again."""

    @classmethod
    def of(cls, included: tuple[str, ...], excluded: tuple[str, ...] = EXCLUDED) -> TopicChoice:
        """Raise ConfigError for an invalid expression."""
        return cls(_patterns("topics", included), _patterns("topics.exclude", excluded))

    def new_among(self, topics: Iterable[str]) -> list[str]:
        """Return the names that have not been matched yet, which takes about 0.05 ms each."""
        return [topic for topic in topics if topic not in self._known_names]

    def matches(self, topic: str) -> bool:
        result = self._known_names.get(topic)
        if result is None:
            if len(self._known_names) >= _NAMES_MAX:
                self._known_names.clear()
            result = _any(self._included, topic) and not _any(self._excluded, topic)
            self._known_names[topic] = result
        return result


@attrs.frozen
class MirroredTopic:
    """A topic of the source, and its name in the target."""

    source: TopicInfo
    target: str


@attrs.define
class TopicComparison:
    ready: dict[str, MirroredTopic] = attrs.field(factory=dict)
    """Topics that the target has, by the name in the source."""
    missing: dict[str, MirroredTopic] = attrs.field(factory=dict)
    too_small: dict[str, MirroredTopic] = attrs.field(factory=dict)
    stopped: dict[str, TopicStopped] = attrs.field(factory=dict)
    from_target: list[str] = attrs.field(factory=list)
    """Topics that come from the target."""


def nothing_to_copy(plan: TopicComparison, topics: Iterable[str], chosen: tuple[str, ...]) -> str:
    """Return why a mirror copies no topic, "" if it copies some. `topics` are those of the source."""
    if plan.ready or plan.missing or plan.too_small or plan.stopped:
        return ""
    default = TopicChoice.of((".*",))
    names = sorted(name for name in topics if name != _HEARTBEATS and default.matches(name))
    if not names:
        return "the source has no topics to copy yet; they are copied once they are created"
    others = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f", and {others} others" if others > 0 else "")
    if plan.from_target:
        return f"no topic is copied: those that come from the target are left out; the source has {shown}"
    return f"no topic is copied: none matches topics={','.join(chosen)}; the source has {shown}"


@attrs.frozen(eq=False, repr=False)
class TopicPlanner:
    """Compares topics of two clusters. `source` and `target` are aliases."""

    _source: str
    _target: str
    choice: TopicChoice
    _policy: IReplicationPolicy

    def plan(self, source_topics: Mapping[str, TopicInfo], target_topics: Mapping[str, TopicInfo]) -> TopicComparison:
        plan = TopicComparison()
        names: dict[str, str] = {}
        for name in sorted(source_topics):
            topic = source_topics[name]
            if topic.is_internal or not topic.partitions or not self.choice.matches(name):
                continue
            try:
                self._put(plan, names, topic, target_topics)
            except TopicStopped as error:
                plan.stopped[name] = error
        return plan

    def _put(
        self, plan: TopicComparison, names: dict[str, str], topic: TopicInfo, target_topics: Mapping[str, TopicInfo]
    ) -> None:
        if self._comes_from_target(topic.name):
            plan.from_target.append(topic.name)
            return
        mirrored = MirroredTopic(topic, self._named(topic.name))
        if mirrored.target == _HEARTBEATS:
            return
        other = names.setdefault(mirrored.target, topic.name)
        if other != topic.name:
            raise TopicStopped(topic.name, f"the replication policy gives {other} the same name {mirrored.target}")
        there = target_topics.get(mirrored.target)
        if there is None:
            plan.missing[topic.name] = mirrored
        elif len(there.partitions) < len(topic.partitions):
            plan.too_small[topic.name] = mirrored
        else:
            plan.ready[topic.name] = mirrored

    def _named(self, topic: str) -> str:
        try:
            name = self._policy.target_topic(self._source, topic)
        except Exception as error:
            raise TopicStopped(topic, f"the replication policy failed with {error!r}") from error
        if not isinstance(name, str) or not name:
            raise TopicStopped(topic, f"the replication policy returned {name!r} instead of a name")
        return name

    def _comes_from_target(self, topic: str) -> bool:
        """Follow the names of a topic that was mirrored several times. Its own source is left out, too."""
        name: str | None = topic
        for _ in range(_HOPS_MAX):
            if name is None:
                return False
            try:
                origin = self._policy.origin(name)
                name = self._policy.upstream_topic(name)
            except Exception as error:
                raise TopicStopped(topic, f"the replication policy failed with {error!r}") from error
            if origin is None:
                return False
            if origin in (self._source, self._target):
                return True
        return False


def _patterns(setting: str, expressions: tuple[str, ...]) -> tuple[Pattern, ...]:
    try:
        return tuple(Pattern.compile(expression.strip()) for expression in expressions if expression.strip())
    except PatternError as error:
        raise ConfigError(f"{setting}: {','.join(expressions)!r} is not a regular expression: {error}") from None


def _any(patterns: tuple[Pattern, ...], name: str) -> bool:
    try:
        return any(pattern.full_match(name) is not None for pattern in patterns)
    except TooManySteps:
        raise ConfigError(f"topics: an expression takes too many steps for the topic {name}: simplify it") from None
