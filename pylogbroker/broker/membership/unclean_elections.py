"""Elections at once when unclean.leader.election.enable is set, for all topics or one, while brokers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import ClusterImage, ConfigResource, ConfigResourceType

SETTING: Final = "unclean.leader.election.enable"


@attrs.define(eq=False, repr=False)
class UncleanElections:
    """Calls `allow`, so that a controller does not wait for the next event of a partition without a leader."""

    _config: BrokerConfig
    _allow: Callable[[], None]
    _are_default: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._are_default = self._config.unclean_leader_election_enable
        self._config.observe(self._settings_changed)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        changed = [change.resource for change in delta if isinstance(change, ConfigChanged)]
        topics = [
            resource
            for resource in changed
            if resource.type is ConfigResourceType.TOPICS and resource.name in after.topics
        ]
        if any(self._are_allowed(after, resource) and not self._are_allowed(before, resource) for resource in topics):
            self._allow()

    def _are_allowed(self, image: ClusterImage, topic: ConfigResource) -> bool:
        return self._config.topic(image.settings(topic)).unclean_leader_election_enable

    def _settings_changed(self, names: frozenset[str]) -> None:
        before, self._are_default = self._are_default, self._config.unclean_leader_election_enable
        if self._are_default and not before:
            self._allow()
