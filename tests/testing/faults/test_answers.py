"""Error answers by the schema: where the error goes, what the rest is, and that every answer can be sent."""

from __future__ import annotations

from typing import Any

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.requests.api import Api
from pylogbroker.errors import ErrorCode
from pylogbroker.testing.faults.answers import ErrorAnswers
from pylogbroker.testing.faults.criteria import Call, Criteria
from pylogbroker.testing.faults.names import api_key
from pylogbroker.wire import codec
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.schema import FieldType, fields_of
from tests.broker.newest_versions import newest
from tests.broker.nodes import NodeTests

BY_KEY = {api.key: api for api in APIS}


def produce(*topics: tuple[str, int]) -> ProduceRequest:
    """A request without records."""
    return ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name, [PartitionProduceData(index, b"")]) for name, index in topics]
    )


class AnswerTests(NodeTests):
    def answers(self, request: Any, error: str, version: int | None = None, **criteria: Any) -> ErrorAnswers:
        api: Api = BY_KEY[request.api_key]
        context = self.node.context(newest(api.key) if version is None else version, "", "")
        return ErrorAnswers(
            Call(api, self.node.broker, context, request), Criteria.of(None, **criteria), ErrorCode[error]
        )

    def test_an_error_of_a_partition_is_in_each_partition(self) -> None:
        answer = self.answers(produce(("a", 0), ("b", 3)), "NOT_LEADER_OR_FOLLOWER").mirrored()
        assert [
            (topic.name, each.index, each.error_code, each.base_offset)
            for topic in answer.responses
            for each in topic.partition_responses
        ] == [("a", 0, 6, -1), ("b", 3, 6, -1)]
        assert answer.throttle_time_ms == 0

    def test_the_error_is_for_selected_elements_alone(self) -> None:
        errors = self.answers(produce(("a", 0), ("b", 3)), "NOT_LEADER_OR_FOLLOWER", topic="b")
        assert [topic.name for topic in errors.mirrored().responses] == ["b"]
        assert [topic.name for topic in errors.rest().topic_data] == ["a"]
        errors = self.answers(produce(("a", 0)), "NOT_LEADER_OR_FOLLOWER", topic="a", partition=0)
        assert errors.rest() is None
        request = ListOffsetsRequest(topics=[ListOffsetsTopic("a", [ListOffsetsPartition(0), ListOffsetsPartition(1)])])
        errors = self.answers(request, "LEADER_NOT_AVAILABLE", topic="a", partition=1)
        assert [each.partition_index for each in errors.mirrored().topics[0].partitions] == [1]
        assert [each.partition_index for each in errors.rest().topics[0].partitions] == [0]

    def test_errors_of_groups_are_outermost(self) -> None:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [0])])])
        answer = self.answers(request, "NOT_COORDINATOR").mirrored()
        assert [(group.group_id, group.error_code, group.topics) for group in answer.groups] == [("g", 16, [])]
        answer = self.answers(request, "UNSTABLE_OFFSET_COMMIT").mirrored()
        found = answer.groups[0].topics[0].partitions[0]
        assert (answer.groups[0].error_code, found.error_code, found.committed_offset) == (0, 88, -1)
        old = OffsetFetchRequest("g")
        assert self.answers(old, "NOT_COORDINATOR", 7).mirrored().error_code == 16

    def test_commits_have_errors_in_partitions(self) -> None:
        partitions = [OffsetCommitRequestPartition(0, 5)]
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions)])
        answer = self.answers(request, "NOT_COORDINATOR").mirrored()
        assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [("t", 16)]

    def test_a_topic_by_its_id_is_found_by_its_name(self) -> None:
        self.node.create("t")
        self.node.create("u")
        ids = [self.node.broker.metadata.topics[name].id for name in ("t", "u")]
        request = FetchRequest(topics=[FetchTopic(topic_id=each, partitions=[FetchPartition()]) for each in ids])
        answer = self.answers(request, "OFFSET_OUT_OF_RANGE", topic="u").mirrored()
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.responses] == [(ids[1], 1)]
        top = self.answers(request, "FETCH_SESSION_ID_NOT_FOUND").mirrored()
        assert (top.error_code, top.responses) == (70, [])

    def test_metadata_has_errors_of_topics_and_of_partitions(self) -> None:
        self.node.create("t", 2)
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        real = self.node.ask(BY_KEY[3].handle, request)
        assert self.answers(request, "UNKNOWN_TOPIC_OR_PARTITION").overwrite(real) == 1
        assert real.topics[0].error_code == 3
        real = self.node.ask(BY_KEY[3].handle, request)
        self.answers(request, "LEADER_NOT_AVAILABLE", topic="t", partition=1).overwrite(real)
        partitions = real.topics[0].partitions
        assert [(each.error_code, each.leader_id) for each in partitions] == [(0, 7), (5, -1)]

    def test_coordinators(self) -> None:
        answer = self.answers(FindCoordinatorRequest(coordinator_keys=["g"]), "COORDINATOR_NOT_AVAILABLE").mirrored()
        found = answer.coordinators[0]
        assert (found.key, found.error_code, found.node_id) == ("g", 15, -1)
        answer = self.answers(FindCoordinatorRequest("g"), "COORDINATOR_NOT_AVAILABLE", 3).mirrored()
        assert (answer.error_code, answer.node_id) == (15, -1)

    def test_every_api_with_a_field_for_errors_can_be_answered(self) -> None:
        for api in APIS:
            for version in range(api.versions.first, api.versions.last + 1):
                request = _filled(api.request, version)
                errors = self.answers(request, "UNKNOWN_SERVER_ERROR", version)
                if errors.target is None:
                    assert (api.name, version <= 3) in {("UpdateFeatures", False)}, f"{api.name} {version}"
                    continue
                answer = errors.mirrored()
                data = b"".join(map(bytes, codec(api.response, version).chunks(answer)))
                decoded = codec(api.response, version).decode(data)
                assert _error_codes(decoded) == {-1} or api.is_read, f"{api.name} {version}: {decoded}"


def _filled(cls: Any, version: int) -> Any:
    """A request with one element in each array."""
    made = cls()
    for field in fields_of(cls):
        if not field.is_array or not field.is_in(version):
            continue
        if isinstance(field.kind, type):
            setattr(made, field.name, [_filled(field.kind, version)])
        elif field.kind is FieldType.STRING:
            setattr(made, field.name, ["x"])
        elif field.kind in (FieldType.INT32, FieldType.INT64):
            setattr(made, field.name, [0])
    return made


def _error_codes(struct: Any) -> set[int]:
    found = set()
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.add(value)
        if field.is_array and isinstance(field.kind, type):
            found |= {code for each in value or () for code in _error_codes(each)}
    return found - {0}


@pytest.mark.parametrize(
    ("given", "hint"), [("Prodce", "Produce"), ("fetch", "Fetch"), ("offset_commit", "OffsetCommit")]
)
def test_an_unknown_api_raises_with_the_likely_one(given: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"there is no API '{given}': did you mean '{hint}'?"):
        api_key(given)
