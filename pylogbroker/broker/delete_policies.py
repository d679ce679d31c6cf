"""Delete policies by name: from what the settings `delete.policies` say to the policies that logs are asked with.

    record-time,newest-segments:3        a name, and behind a colon what only the policy itself understands

A setting that names what there is not, or what the policy refuses, is refused to whoever sets it.  One that was stored
when the plugin was still there keeps no broker from starting: what is missing deletes nothing, and that is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import TOPIC, TopicConfig
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView
from pylogbroker.storage import GuardedPolicy

SETTING = "delete.policies"
SETTING_OF_ALL = "log.delete.policies"
log = Logger()


@attrs.frozen(eq=False)
class DeletePolicies:
    """The policies there are to choose from."""

    _factories: Mapping[str, IDeletePolicyFactory] = attrs.field(factory=dict)
    _made: WeakKeyDictionary[TopicConfig, tuple[GuardedPolicy, ...]] = attrs.field(
        factory=WeakKeyDictionary, init=False
    )

    def check(self, settings: TopicConfig, explicit: Container[str] = (SETTING_OF_ALL,)) -> None:
        """ConfigError unless the policies can be made that are named by what is `explicit` among a topic's settings."""
        if SETTING in explicit or SETTING_OF_ALL in explicit:
            for text in settings.texts(SETTING):
                self._make(text, settings)

    def of(self, settings: TopicConfig, complain: Callable[[ConfigError], object]) -> tuple[GuardedPolicy, ...]:
        """The policies of the topics with these settings; those that cannot be made are left out, and complained of."""
        if settings not in self._made:
            self._made[settings] = tuple(self._make_all(settings, complain)) if settings.deletes else ()
        return self._made[settings]

    def _make_all(self, settings: TopicConfig, complain: Callable[[ConfigError], object]) -> Iterator[GuardedPolicy]:
        for text in settings.texts(SETTING):
            try:
                yield GuardedPolicy(self._make(text, settings), _Report(text))
            except ConfigError as error:
                complain(error)

    def _make(self, text: str, settings: TopicConfig) -> IDeletePolicy:
        name, _, argument = text.partition(":")
        factory = self._factories.get(name)
        if factory is None:
            raise _refusal(text, settings, f"expected any of {', '.join(sorted(self._factories))}")
        try:
            policy = factory.make(argument, MappingProxyType({name: settings[name] for name in TOPIC}))
        except Exception as error:
            what = str(error) if isinstance(error, ValueError) else f"making it failed with {error!r}"
            raise _refusal(text, settings, what) from error
        if not IDeletePolicy.providedBy(policy):
            raise _refusal(text, settings, "what the plugin makes is no delete policy")
        return policy


def _refusal(text: str, settings: TopicConfig, why: str) -> ConfigError:
    setting = SETTING if SETTING in settings.overrides else SETTING_OF_ALL
    return ConfigError(f"{setting}: {text!r} is not accepted; {why}")


@attrs.frozen
class _Report:
    """Logs what is wrong with a policy."""

    _policy: str

    def __call__(self, found: LogView, cause: str, error: Exception) -> None:
        log.failure(
            "the delete policy {policy} deletes nothing: asked about {topic}-{partition}, {cause}",
            Failure(error),
            policy=self._policy,
            topic=found.topic,
            partition=found.partition,
            cause=cause,
        )
