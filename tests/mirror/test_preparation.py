"""Topics that a mirror creates in the target: in pieces, and again if a request did not get an answer in time."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pylogbroker.client.admin import ItemsFailed, NewTopic
from pylogbroker.client.metadata import PartitionInfo, TopicInfo
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.mirror.errors import TopicStopped
from pylogbroker.mirror.preparation import PARTITIONS_AT_ONCE, TargetPreparation
from pylogbroker.mirror.topics import MirroredTopic, TopicComparison
from pylogbroker.rpc.errors import RequestTimedOut
from pylogbroker.wire import NO_ID

PARTITION = PartitionInfo(0, -1, (0,), (0,))


@attrs.define
class CreatingAdmin:
    """An admin client whose topics are a list of the requests that create them."""

    errors: dict[str, Exception]
    requests: list[list[NewTopic]] = attrs.field(factory=list)

    @property
    def topics(self) -> CreatingAdmin:
        return self

    async def create(self, new: list[NewTopic]) -> None:
        self.requests.append(new)
        errors = {topic.name: self.errors[topic.name] for topic in new if topic.name in self.errors}
        if errors:
            raise ItemsFailed(errors, {})


async def no_settings(topics: object) -> dict[str, dict[str, str]]:
    return {}


def plan_of(topics: int, partitions: int) -> TopicComparison:
    names = [f"t{number}" for number in range(topics)]
    infos = {name: TopicInfo(name, NO_ID, (PARTITION,) * partitions) for name in names}
    return TopicComparison(missing={name: MirroredTopic(info, name) for name, info in infos.items()})


async def carry_out(admin: Any, plan: TopicComparison) -> dict[str, TopicStopped]:
    return await TargetPreparation(admin, -1, no_settings).carry_out(plan)


async def test_a_request_creates_a_limited_number_of_partitions() -> None:
    admin = CreatingAdmin({})
    assert await carry_out(admin, plan_of(200, 25)) == {}
    assert [topic.name for request in admin.requests for topic in request] == [f"t{number}" for number in range(200)]
    assert max(sum(topic.partitions for topic in request) for request in admin.requests) == PARTITIONS_AT_ONCE


@pytest.mark.parametrize("error", [RequestTimedOut("no answer"), KafkaError(code=ErrorCode.NOT_CONTROLLER)])
async def test_topic_whose_creation_may_succeed_later_does_not_stop(error: Exception) -> None:
    rejection = KafkaError(code=ErrorCode.POLICY_VIOLATION)
    admin = CreatingAdmin({"t1": error, "t2": rejection})
    assert list(await carry_out(admin, plan_of(3, 1))) == ["t2"]
