"""Requests that name topics by ids: unknown ids, the same answers as by names, and access."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode, ProtocolViolation
from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import START, Node, opened_node
from tests.storage.support import batch

LOST = UUID(int=99)
ADMIN, BOB = "User:admin", "User:bob"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": ADMIN,
}
UNKNOWN, DENIED = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@contextmanager
def node_with_topics(directory: Path, settings: dict[str, str]) -> Iterator[tuple[Node, dict[str, UUID]]]:
    with opened_node((str(directory),), {"offsets.topic.num.partitions": "1", **settings}) as node:
        node.create("t", 2)
        node.create("u", 1)
        ask(node, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        yield node, {name: node.broker.metadata.topics[name].id for name in ("t", "u")}


def ask(node: Node, request: Request, version: int, principal: str = ADMIN) -> Any:
    """Ask as a client of the node's listener, with access control if the node has any."""
    [api] = (api for api in APIS if api.key == request.api_key)
    handle = api.handle if node.broker.authorizer is None else api.guarded().handle
    return node.ask(handle, request, version, principal=principal)


def produced(*topics: tuple[UUID, int], acks: int = 1) -> ProduceRequest:
    records = batch([b"v"], [int(START * 1000)])
    return ProduceRequest(
        None, acks, 1000, [TopicProduceData("", [PartitionProduceData(index, records)], each) for each, index in topics]
    )


def errors(answer: Any) -> list[tuple[UUID, int]]:
    return [
        (topic.topic_id, partition.error_code) for topic in answer.responses for partition in topic.partition_responses
    ]


def test_records_are_produced_by_topic_id(tmp_path: Path) -> None:
    with node_with_topics(tmp_path, {}) as (node, ids):
        assert errors(ask(node, produced((ids["t"], 1)), 13)) == [(ids["t"], 0)]
        several = produced((LOST, 0), (ids["t"], 1), (NO_ID, 0), (ids["u"], 0), (ids["u"], 7))
        assert errors(ask(node, several, 13)) == [
            (LOST, UNKNOWN),
            (ids["t"], 0),
            (NO_ID, UNKNOWN),
            (ids["u"], 0),
            (ids["u"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert errors(ask(node, produced((LOST, 0)), 13)) == [(LOST, UNKNOWN)]
        ends = {key: found.log.log_end_offset for key, found in node.broker.partitions.hosted.items()}
        assert (ends["t", 0], ends["t", 1], ends["u", 0]) == (0, 2, 1)


def test_a_produce_without_answer_to_an_unknown_id_closes_the_connection(tmp_path: Path) -> None:
    with node_with_topics(tmp_path, {}) as (node, _), pytest.raises(ProtocolViolation, match=f"{LOST}-0 failed"):
        ask(node, produced((LOST, 0), acks=0), 13)


def test_access_goes_by_the_names_of_ids(tmp_path: Path) -> None:
    with node_with_topics(tmp_path, AUTHORIZER) as (node, ids):
        for _ in range(2):  # what has been allowed is remembered
            assert errors(ask(node, produced((ids["t"], 0)), 13)) == [(ids["t"], 0)]
            assert errors(ask(node, produced((ids["t"], 0)), 13, BOB)) == [(ids["t"], DENIED)]
            assert errors(ask(node, produced((LOST, 0)), 13, BOB)) == [(LOST, UNKNOWN)]
            answer = ask(node, produced((ids["t"], 0), (LOST, 0), (ids["u"], 0)), 13, BOB)
            assert dict(errors(answer)) == {ids["t"]: DENIED, LOST: UNKNOWN, ids["u"]: DENIED}
        topics = [OffsetCommitRequestTopic("", [OffsetCommitRequestPartition(0, 3)], each) for each in (ids["t"], LOST)]
        for principal, expected in ((ADMIN, [0, UNKNOWN]), (BOB, [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2)):
            answer = ask(node, OffsetCommitRequest("g", topics=topics), 10, principal)
            assert [topic.topic_id for topic in answer.topics] == [ids["t"], LOST]
            assert [topic.partitions[0].error_code for topic in answer.topics] == expected
