"""The topic of the schemas as a broker sees it that did not create it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import attrs
import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.records import TOPIC
from pylogbroker.registry.schemas_topic import SchemasTopic

LEADER = 2
OUTCOMES = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "_schemas-0 has no leader now",
    ErrorCode.POLICY_VIOLATION: "the topic _schemas cannot be created: no",
}


@attrs.define(eq=False)
class Member:
    """Broker 0 of a cluster: its metadata, and a controller that answers with an error."""

    code: ErrorCode
    clock: Clock = attrs.field(factory=Clock)
    topics: dict[str, TopicImage] = attrs.field(factory=dict)
    creations: int = 0

    async def create_topic(self, wanted: object) -> TopicImage:
        self.creations += 1
        raise KafkaError("no", self.code)

    def learn(self) -> None:
        """See the topic that another broker has created."""
        partitions = PersistentMap({0: PartitionState(LEADER, (LEADER,), (LEADER,))})
        self.topics[TOPIC] = TopicImage(TOPIC, uuid4(), partitions)

    def find_leader(self) -> Deferred[int]:
        services: Any = SimpleNamespace(
            config=BrokerConfig({"zookeeper.connect": "localhost:2181"}),
            controller=self,
            metadata=SimpleNamespace(
                topics=self.topics,
                topic_settings={TOPIC: {"cleanup.policy": "compact"}}.__getitem__,
                image=SimpleNamespace(brokers={0: None, LEADER: None}),
            ),
            node=SimpleNamespace(id=0),
            partitions=SimpleNamespace(led={}),
            runtime=SimpleNamespace(clock=self.clock),
        )
        return ensureDeferred(SchemasTopic(services).leader())


def test_a_topic_that_another_broker_creates_is_awaited() -> None:
    member = Member(ErrorCode.TOPIC_ALREADY_EXISTS)
    leader: Any = member.find_leader()
    member.clock.pump([0.1] * 10)
    assert not leader.called
    member.learn()
    member.clock.advance(0.1)
    assert leader.result == LEADER


@pytest.mark.parametrize(("code", "message"), OUTCOMES.items())
def test_a_topic_that_does_not_appear_is_an_error(code: ErrorCode, message: str) -> None:
    member = Member(code)
    leader: Any = member.find_leader()
    member.clock.pump([1] * 11)
    error = leader.result.value
    leader.addErrback(lambda _: None)
    assert isinstance(error, RegistryError)
    assert message in str(error)
