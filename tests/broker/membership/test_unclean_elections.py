"""Unclean elections that are allowed while brokers run."""

from __future__ import annotations

import uuid

import attrs
import pytest

from pylogbroker.broker.membership.unclean_elections import UncleanElections
from pylogbroker.config import BrokerConfig, ConfigSource
from pylogbroker.metadata.delta import ConfigChanged, Delta, TopicCreated
from pylogbroker.metadata.image import ClusterImage, PartitionState, TopicImage, broker_resource, topic_resource
from pylogbroker.metadata.persistent_map import PersistentMap

NAME = "unclean.leader.election.enable"
TOPIC = TopicImage("t", uuid.UUID(int=1), PersistentMap({0: PartitionState(-1, (1,), (2,))}))


@attrs.define(eq=False)
class Watched:
    config: BrokerConfig = attrs.field(factory=lambda: BrokerConfig({"log.dirs": "unused"}))
    image: ClusterImage = attrs.field(factory=lambda: Delta.of(TopicCreated(TOPIC)).apply(ClusterImage()))
    calls: int = 0
    elections: UncleanElections = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.elections = UncleanElections(self.config, self.allow)

    def allow(self) -> None:
        self.calls += 1

    def set_topic(self, name: str, **settings: str) -> int:
        """Return the number of calls so far."""
        delta = Delta.of(
            ConfigChanged(topic_resource(name), {each.replace("_", "."): settings[each] for each in settings})
        )
        before, self.image = self.image, delta.apply(self.image)
        self.elections.on_delta(delta, before, self.image)
        return self.calls

    def set_default(self, value: str) -> int:
        self.config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {NAME: value})
        return self.calls


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_allowing_unclean_elections_for_a_topic_elects_leaders(watched: Watched) -> None:
    assert watched.set_topic("t", retention_ms="5") == 0
    assert watched.set_topic("t", unclean_leader_election_enable="true") == 1
    assert watched.set_topic("t", unclean_leader_election_enable="true", retention_ms="5") == 1
    assert watched.set_topic("t", unclean_leader_election_enable="false") == 1
    assert watched.set_topic("t") == 1


def test_other_settings_elect_no_leaders(watched: Watched) -> None:
    assert watched.set_topic("unknown", unclean_leader_election_enable="true") == 0
    delta = Delta.of(ConfigChanged(broker_resource(None), {NAME: "true"}))
    watched.elections.on_delta(delta, watched.image, delta.apply(watched.image))
    assert watched.calls == 0


def test_allowing_unclean_elections_for_all_brokers_elects_leaders(watched: Watched) -> None:
    watched.config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, {"log.cleaner.threads": "2"})
    assert watched.calls == 0
    assert watched.set_default("true") == 1
    assert watched.set_default("false") == 1
    assert watched.set_default("true") == 2
