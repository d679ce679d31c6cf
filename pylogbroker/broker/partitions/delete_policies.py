"""Delete policies by name: from what the settings `delete.policies` say to the policies that logs are asked with.

    record-time,newest-segments:3        a name, and behind a colon what only the policy itself understands

A setting that names what there is not, or what the policy refuses, is refused to whoever sets it.  One that was stored
when the plugin was still there keeps no broker from starting, and no other setting from being changed: what is missing
deletes nothing, and that is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.runtime import LogRateLimit
from pylogbroker.config import TOPIC, TopicConfig
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView
from pylogbroker.storage import GuardedPolicy
from pylogbroker.storage.formatting import listed

SETTING = "delete.policies"
SETTING_OF_ALL = "log.delete.policies"
log = Logger()


@attrs.frozen
class _Made:
    """The policies of all topics with the same settings, and why others could not be made."""

    policies: tuple[GuardedPolicy, ...]
    errors: tuple[ConfigError, ...]


@attrs.frozen(eq=False)
class DeletePolicies:
    """The policies there are to choose from."""

    _factories: Mapping[str, IDeletePolicyFactory] = attrs.field(factory=dict)
    _made: WeakKeyDictionary[TopicConfig, _Made] = attrs.field(factory=WeakKeyDictionary, init=False)

    def check(
        self,
        settings: TopicConfig,
        explicit: Container[str] = (SETTING_OF_ALL,),
        before: TopicConfig | None = None,
    ) -> None:
        """ConfigError unless the policies can be made that are named by what is `explicit` among a topic's settings.

        What was named `before`, and could not be made then, is passed over.
        """
        if SETTING in explicit or SETTING_OF_ALL in explicit:
            _check_once(settings, before)
            for text in settings.texts(SETTING):
                try:
                    self._make(text, settings)
                except ConfigError:
                    if before is None or not self._is_missing(text, before):
                        raise

    def _is_missing(self, text: str, settings: TopicConfig) -> bool:
        """Whether the settings name a policy that cannot be made."""
        if text not in settings.texts(SETTING):
            return False
        try:
            self._make(text, settings)
        except ConfigError:
            return True
        return False

    def of(self, settings: TopicConfig, complain: Callable[[ConfigError], object]) -> tuple[GuardedPolicy, ...]:
        """The policies of a topic with these settings; those that cannot be made are left out, and complained of."""
        made = self._made.get(settings)
        if made is None:
            made = self._made[settings] = self._make_all(settings)
        for error in made.errors:
            complain(error)
        return made.policies

    def _make_all(self, settings: TopicConfig) -> _Made:
        policies, errors = [], []
        for text in settings.texts(SETTING) if settings.deletes else ():
            try:
                policies.append(GuardedPolicy(self._make(text, settings), _Report(text)))
            except ConfigError as error:
                errors.append(error)
        return _Made(tuple(policies), tuple(errors))

    def _make(self, text: str, settings: TopicConfig) -> IDeletePolicy:
        name, _, argument = text.partition(":")
        factory = self._factories.get(name)
        if factory is None:
            raise _config_error(text, settings, f"expected any of {', '.join(sorted(self._factories))}")
        try:
            policy = factory.make(argument, MappingProxyType({name: settings[name] for name in TOPIC}))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            what = str(error) if isinstance(error, ValueError) else f"making it failed with {error!r}"
            raise _config_error(text, settings, what) from error
        if not IDeletePolicy.providedBy(policy):
            raise _config_error(text, settings, "what the plugin makes is no delete policy")
        return policy


def _check_once(settings: TopicConfig, before: TopicConfig | None) -> None:
    named = settings.texts(SETTING)
    if len(set(named)) < len(named) and (before is None or before.texts(SETTING) != named):
        raise _config_error(",".join(named), settings, "expected each policy once")


def _config_error(text: str, settings: TopicConfig, why: str) -> ConfigError:
    setting = SETTING if SETTING in settings.overrides else SETTING_OF_ALL
    return ConfigError(f"{setting}: {text!r} is not accepted; {why}")


@attrs.frozen
class _Report:
    """Logs what is wrong with a policy."""

    _policy: str

    def __call__(self, found: LogView, cause: str, error: BaseException) -> None:
        log.failure(
            "the delete policy {policy} deletes nothing: asked about {topic}-{partition}, {cause}",
            Failure(error),
            policy=self._policy,
            topic=found.topic,
            partition=found.partition,
            cause=cause,
        )


@attrs.define(eq=False)
class MissingPolicies:
    """Logs which policies stored settings name and nothing provides: a line for each, with its topics.

    Many topics are set up at once when the broker starts, or its settings change; they share a line.
    """

    _clock: IReactorTime
    _log_rate_limit: LogRateLimit
    _topics: dict[str, list[str]] = attrs.field(factory=dict, init=False)  # by what is wrong
    _noted: dict[str, None] = attrs.field(factory=dict, init=False)  # topics, in their order

    def note(self, topic: str, error: ConfigError) -> None:
        """Log soon that a topic has to do without a policy."""
        self._noted[topic] = None
        if not self._topics:
            self._clock.callLater(0, self._log_missing)
        self._topics.setdefault(str(error), []).append(topic)

    def take_noted(self) -> list[str]:
        """Return the topics that were noted, and forget them: those that still lack a policy are to be noted again."""
        noted, self._noted = self._noted, {}
        return list(noted)

    def _log_missing(self) -> None:
        topics, self._topics = self._topics, {}
        for why, names in topics.items():
            if self._log_rate_limit.is_due(why, int(self._clock.seconds() * 1000)):
                log.error("a delete policy deletes nothing in {topics}: {why}", topics=listed(names), why=why)
