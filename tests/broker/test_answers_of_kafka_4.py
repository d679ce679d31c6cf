"""Answers in the versions of Kafka 4.4, beside those of Kafka 4.4."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from pylogbroker.broker.apis import APIS
from pylogbroker.wire import Request
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_config_resources import ListConfigResourcesRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.nodes import opened_node
from tests.broker.security.answers import asking, plain
from tests.broker.security.cases import Setting
from tests.peers.kafka import KafkaBroker
from tests.support.oracle_answers import OracleAnswers
from tests.support.waiting import wait_until

SETTINGS = {"offsets.topic.num.partitions": "1"}
Ask = Callable[[Request, int], Any]


def requests(node: int, topic_id: UUID) -> dict[str, tuple[Request, int]]:
    """Return requests by what is asked, with the version."""
    replicas = {"the same replicas": [node], "none": [], "one twice": [node, node], "another broker": [node, 99]}
    cases: dict[str, tuple[Request, int]] = {
        "a topic": (MetadataRequest([MetadataRequestTopic(name="t")]), 13),
        "no group": (DescribeGroupsRequest(["nobody"], True), 6),
        "no group, in version 5": (DescribeGroupsRequest(["nobody"]), 5),
        "deletion of no group": (DeleteGroupsRequest(["nobody"]), 3),
        "a node of another cluster": (ApiVersionsRequest("a", "1", "another", node), 5),
        "a node of no cluster": (ApiVersionsRequest("a", "1", None, node), 5),
        "no node of a cluster": (ApiVersionsRequest("a", "1", "another", -1), 5),
        "no transactions": (ListTransactionsRequest(transactional_id_pattern="orders-[0-9]+"), 2),
        "an expression that is none": (ListTransactionsRequest(transactional_id_pattern="("), 2),
        "an expression that RE2 lacks": (ListTransactionsRequest(transactional_id_pattern="(?<!a)b"), 2),
        "an expression without text": (ListTransactionsRequest(transactional_id_pattern=""), 2),
        "topics with settings": (ListConfigResourcesRequest([2]), 1),
        "groups and metrics with settings": (ListConfigResourcesRequest([16, 32]), 1),
        "metrics with settings": (ListConfigResourcesRequest(), 0),
        "settings of unknown types": (ListConfigResourcesRequest([2, 64]), 1),
        "fenced brokers": (DescribeClusterRequest(False, 1, True), 2),
    }
    cases |= by_ids(topic_id)
    for timestamp in range(-7, 0):
        for version in (10, 11):
            topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
            cases[f"offset of {timestamp} in version {version}"] = ListOffsetsRequest(-1, 0, [topic]), version
    for name, target in replicas.items():
        for may_change in (True, False):
            moved = ReassignableTopic("t", [ReassignablePartition(0, target)])
            request = AlterPartitionReassignmentsRequest(1000, [moved], allow_replication_factor_change=may_change)
            cases[f"reassignment to {name}, may change: {may_change}"] = request, 1
    return cases


def by_ids(topic_id: UUID) -> dict[str, tuple[Request, int]]:
    """Return requests that name topics by ids, known and unknown ones; the last ones see what the first commit."""
    ids = (topic_id, UUID(int=99), UUID(int=0))
    commits = [OffsetCommitRequestPartition(0, 3), OffsetCommitRequestPartition(9, 3)]
    group = OffsetFetchRequestGroup("readers", topics=[OffsetFetchRequestTopics("", [0, 9], each) for each in ids])
    committed = [OffsetCommitRequestTopic("", commits, each) for each in ids]
    return {
        "commit by ids": (OffsetCommitRequest("readers", topics=committed), 10),
        "commit by an unknown id": (OffsetCommitRequest("readers", topics=committed[1:2]), 10),
        "offsets by ids": (OffsetFetchRequest(groups=[group]), 10),
        "offsets of all topics": (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("readers", topics=None)]), 10),
        "fetch by ids": (FetchRequest(topics=[FetchTopic("", each, [FetchPartition(0)]) for each in ids]), 18),
    }


def answers(ask: Ask) -> dict[str, Any]:
    [created] = ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7).topics
    coordinator = FindCoordinatorRequest("", 0, ["nobody"])
    wait_until(lambda: not ask(coordinator, 4).coordinators[0].error_code)
    wait_until(lambda: ask(DescribeGroupsRequest(["nobody"]), 5).groups[0].group_state == "Dead")
    setting = Setting({"t": created.topic_id}, -1)
    node = ask(MetadataRequest([]), 13).brokers[0].node_id
    return {
        name: plain(ask(request, version), setting, version)
        for name, (request, version) in requests(node, created.topic_id).items()
    }


def of_kafka(directory: Path) -> dict[str, Any]:
    with KafkaBroker(directory, SETTINGS, kafka_release="kafka-4.4") as kafka, asking(kafka.port) as ask:
        return answers(lambda request, version: ask("127.0.0.1", request, version))


def test_kafka_4_answers_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    question = inspect.getsource(requests) + inspect.getsource(by_ids) + inspect.getsource(answers)
    kafkas = oracle.answer("kafka-4", question, lambda: of_kafka(tmp_path / "kafka"))
    apis = {api.key: api for api in APIS}
    with opened_node((str(tmp_path),), SETTINGS) as node:
        ours = answers(lambda request, version: node.ask(apis[request.api_key].handle, request, version))
    assert {name: ours[name] for name in kafkas} == kafkas
