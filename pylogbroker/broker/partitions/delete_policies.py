"""Delete policies by name: the setting `delete.policies`, and the policies made from it.

    record-time,newest-segments:3        names; an argument for the policy follows a colon

A new setting is rejected if a policy is unknown or rejects its argument. A stored one whose plugin is missing stops
neither a start nor other changes: the policy deletes nothing, and that is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.runtime.resources import LogRateLimit
from pylogbroker.config import TOPIC, TopicConfig
from pylogbroker.errors import ConfigError
from pylogbroker.formatting import listed
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView
from pylogbroker.named_plugins import Installed, why_unfit
from pylogbroker.storage import GuardedPolicy

SETTING = "delete.policies"
_SETTING_OF_ALL = "log.delete.policies"
log = Logger()


@attrs.frozen
class _Made:
    """Policies for topics with the same settings, and errors of those that could not be made."""

    policies: tuple[GuardedPolicy, ...]
    errors: tuple[ConfigError, ...]


@attrs.frozen(eq=False, repr=False)
class DeletePolicies:
    _installed: Installed = attrs.field(factory=Installed)  # factories, and policies that need none
    _made: WeakKeyDictionary[TopicConfig, _Made] = attrs.field(factory=WeakKeyDictionary, init=False)

    def check(
        self,
        settings: TopicConfig,
        explicit: Container[str] = (_SETTING_OF_ALL,),
        before: TopicConfig | None = None,
    ) -> None:
        """Raise ConfigError unless the policies in `explicit` settings can be made.

        Policies that could not be made `before` either are ignored.
        """
        if SETTING in explicit or _SETTING_OF_ALL in explicit:
            _check_once(settings, before)
            for text in settings.delete_policies:
                try:
                    self._make(text, settings)
                except ConfigError:
                    if before is None or not self._is_missing(text, before):
                        raise

    def _is_missing(self, text: str, settings: TopicConfig) -> bool:
        if text not in settings.delete_policies:
            return False
        try:
            self._make(text, settings)
        except ConfigError:
            return True
        return False

    def of(self, settings: TopicConfig, report: Callable[[ConfigError], object]) -> tuple[GuardedPolicy, ...]:
        """Return a topic's policies; report those that cannot be made."""
        made = self._made.get(settings)
        if made is None:
            made = self._made[settings] = self._make_all(settings)
        for error in made.errors:
            report(error)
        return made.policies

    def _make_all(self, settings: TopicConfig) -> _Made:
        policies, errors = [], []
        for text in settings.delete_policies if settings.deletes else ():
            try:
                policies.append(GuardedPolicy(self._make(text, settings), _Report(text)))
            except ConfigError as error:
                errors.append(error)
        return _Made(tuple(policies), tuple(errors))

    def _make(self, text: str, settings: TopicConfig) -> IDeletePolicy:
        name, colon, argument = text.partition(":")
        plugin: Any = self._installed.plugins.get(name)
        if plugin is None:
            raise _config_error(text, settings, self._installed.unknown(name))
        if not IDeletePolicyFactory.providedBy(plugin):
            if colon:
                raise _config_error(text, settings, f"{name} takes no argument")
            return _checked(text, settings, plugin)
        try:
            policy = plugin.make(argument, MappingProxyType({name: settings[name] for name in TOPIC}))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            what = str(error) if isinstance(error, ValueError) else f"making it failed with {error!r}"
            raise _config_error(text, settings, what) from error
        return _checked(text, settings, policy)


def _checked(text: str, settings: TopicConfig, policy: Any) -> IDeletePolicy:
    why = why_unfit(IDeletePolicy, policy)
    if why is not None:
        raise _config_error(text, settings, f"{why} (delete policies provide IDeletePolicy)")
    checked: IDeletePolicy = policy
    return checked


def _check_once(settings: TopicConfig, before: TopicConfig | None) -> None:
    named = settings.delete_policies
    if len(set(named)) < len(named) and (before is None or before.delete_policies != named):
        raise _config_error(",".join(named), settings, "expected each policy once")


def _config_error(text: str, settings: TopicConfig, why: str) -> ConfigError:
    setting = SETTING if SETTING in settings.overrides else _SETTING_OF_ALL
    return ConfigError(f"{setting}: {text!r} is not accepted; {why}")


@attrs.frozen
class _Report:
    _policy: str

    def __call__(self, view: LogView, cause: str, error: BaseException) -> None:
        log.failure(
            "the delete policy {policy} deletes nothing: asked about {topic}-{partition}, {cause}",
            Failure(error),
            policy=self._policy,
            topic=view.topic,
            partition=view.partition,
            cause=cause,
        )


@attrs.define(eq=False, repr=False)
class MissingPolicies:
    """Logs policies of stored settings that no plugin provides.

    A start or a change of settings configures many topics at once; they share a line.
    """

    _clock: IReactorTime
    _log_rate_limit: LogRateLimit
    _topics: dict[str, list[str]] = attrs.field(factory=dict, init=False)  # by error
    _noted: dict[str, None] = attrs.field(factory=dict, init=False)  # topics, in order

    def note(self, topic: str, error: ConfigError) -> None:
        self._noted[topic] = None
        if not self._topics:
            self._clock.callLater(0, self._log_missing)
        self._topics.setdefault(str(error), []).append(topic)

    def take_noted(self) -> list[str]:
        noted, self._noted = self._noted, {}
        return list(noted)

    def _log_missing(self) -> None:
        topics, self._topics = self._topics, {}
        for why, names in topics.items():
            if self._log_rate_limit.is_due(why, int(self._clock.seconds() * 1000)):
                log.error("a delete policy deletes nothing in {topics}: {why}", topics=listed(names), why=why)
