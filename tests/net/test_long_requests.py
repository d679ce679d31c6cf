"""Requests for very many partitions, topics or groups do not keep the reactor from other connections.

The broker's own watch measures every iteration of its reactor; what it reports fails the test, with the line of code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import UUID

import pytest

from pylogbroker.records import Record, build
from pylogbroker.wire import Request, response_codec
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.describe_client_quotas import EntityData
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pylogbroker.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pylogbroker.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.newest_versions import newest
from tests.net.test_hostile_peers import Peer
from tests.support.broker_process import BrokerProcess
from tests.support.budget import Budget
from tests.support.examples import examples
from tests.support.reactor_stalls import check_stalls, watching

PARTITIONS = min(10_000, examples(10_000))
ALL = range(PARTITIONS)
OLD_RECORDS = 500
"""Partitions whose first record is so old that the next append begins another segment."""

ELEMENTS = min(10_000, examples(10_000))
NAMES = [f"name{number}" for number in range(ELEMENTS)]
TOPIC, BROKER = 2, 4
SET = 0
GROUP, TRANSACTION = 0, 1
COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS = 14, 51
PRODUCE_VERSION = 9
ANSWER_SECONDS_MAX = 600


class Client:
    """Sends requests. `check` fails if iterations of the reactor took too long meanwhile."""

    def __init__(self, process: BrokerProcess, budget: Budget) -> None:
        self._process = process
        self._budget = budget
        self._peer = Peer(process)
        self._peer.socket.settimeout(ANSWER_SECONDS_MAX)

    def check(self, work: Callable[[], object]) -> None:
        """Do work, which has to be possible again: it is repeated if it had stalls."""
        check_stalls(self._process, self._budget, lambda attempt: work())

    def ask(self, request: Request) -> Any:
        version = newest(request.api_key)
        codec = response_codec(request.api_key, version)
        return codec.decode(self._peer.ask(request, version), codec._header_size)

    def scrape(self) -> None:
        """Ask for the metrics of all partitions, and of a group's lag in each."""
        address = next(line.partition("web UI on ")[2] for line in self._process.log_lines() if "web UI on " in line)
        with urlopen(f"{address}metrics", timeout=120) as answer:
            lines = answer.read().decode().splitlines()
        for name in ("kafka_log_log_size", "kafka_topic_partition_leader", "kafka_consumergroup_lag"):
            assert sum(line.startswith(f"{name}{{") and 'topic="many"' in line for line in lines) == PARTITIONS, name

    def ask_to_produce(self) -> None:
        """Produce to all partitions in one request, with a small one behind it that must not overtake it."""
        batch, old = [build([Record(0, time_ms, None, b"value")]) for time_ms in (int(time.time() * 1000), 1)]
        data = [PartitionProduceData(index, batch if index >= OLD_RECORDS else old) for index in ALL]
        for produced in (data, data[-1:]):
            self._peer.send(ProduceRequest(None, -1, 1000, [TopicProduceData("many", produced)]), PRODUCE_VERSION)
        codec = response_codec(ProduceRequest.api_key, PRODUCE_VERSION)
        offsets = []
        for _ in range(2):
            [topic] = codec.decode(self._peer.answer(), codec._header_size).responses
            assert {partition.error_code for partition in topic.partition_responses} == {0}
            offsets.append([partition.base_offset for partition in topic.partition_responses])
        assert offsets == [[0] * PARTITIONS, [1]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, budget: Budget) -> Iterator[Client]:
    running = BrokerProcess(tmp_path_factory.mktemp("turns"), {**watching(budget), "http.listeners": "http://:0"})
    running.start()
    yield Client(running, budget)
    running.kill()


@pytest.fixture
def denied_client(tmp_path: Path, budget: Budget) -> Iterator[Client]:
    """A client that may do nothing."""
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    running = BrokerProcess(tmp_path, {**watching(budget), **authorizer})
    running.start()
    yield Client(running, budget)
    running.kill()


def coordinate(client: Client, key: str, kind: int) -> None:
    """Let the broker make and load the internal topic of a kind of coordinator."""
    while client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators[0].error_code:
        pass


def commit_offsets(client: Client) -> None:
    """Commit, fetch and delete the offsets of all partitions."""
    coordinate(client, "g", GROUP)
    offsets = [OffsetCommitRequestPartition(index, 1) for index in ALL]
    request = OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("many", offsets)])
    errors = {COORDINATOR_LOAD_IN_PROGRESS}
    while errors == {COORDINATOR_LOAD_IN_PROGRESS}:
        [committed] = client.ask(request).topics
        errors = {partition.error_code for partition in committed.partitions}
    assert errors == {0}
    for wanted in (None, [OffsetFetchRequestTopics("many", list(ALL))]):
        [group] = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=wanted)])).groups
        assert [partition.committed_offset for partition in group.topics[0].partitions] == [1] * PARTITIONS
    partitions = [OffsetDeleteRequestPartition(index) for index in ALL]
    [deleted] = client.ask(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("many", partitions)])).topics
    assert {partition.error_code for partition in deleted.partitions} == {0}


def commit_in_transaction(client: Client) -> None:
    """Add all partitions to a transaction, commit their offsets in it, and end it."""
    coordinate(client, "t", TRANSACTION)
    error = COORDINATOR_LOAD_IN_PROGRESS
    while error == COORDINATOR_LOAD_IN_PROGRESS:
        producer = client.ask(InitProducerIdRequest("t", 60_000))
        error = producer.error_code
    assert error == 0
    identity = producer.producer_id, producer.producer_epoch
    topics = [AddPartitionsToTxnTopic("many", list(ALL))]
    transaction = AddPartitionsToTxnTransaction("t", *identity, topics=topics)
    [added] = client.ask(AddPartitionsToTxnRequest(transactions=[transaction])).results_by_transaction
    assert {each.partition_error_code for each in added.topic_results[0].results_by_partition} == {0}
    client.ask(AddOffsetsToTxnRequest("t", *identity, "g"))
    offsets = [TxnOffsetCommitRequestPartition(index, 2) for index in ALL]
    [committed] = client.ask(
        TxnOffsetCommitRequest("t", "g", *identity, topics=[TxnOffsetCommitRequestTopic("many", offsets)])
    ).topics
    assert {partition.error_code for partition in committed.partitions} == {0}
    end = EndTxnRequest("t", *identity, True)
    assert client.ask(end).error_code == 0
    while client.ask(end).error_code == CONCURRENT_TRANSACTIONS:  # until all markers are written
        pass
    [group] = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])).groups
    assert [partition.committed_offset for partition in group.topics[0].partitions] == [2] * PARTITIONS


def test_requests_for_many_partitions_give_way(client: Client) -> None:
    client.check(lambda: ask_for_many_partitions(client))


def ask_for_many_partitions(client: Client) -> None:
    """Ask for all that can be asked of a topic's partitions, from its creation to its deletion."""
    [created] = client.ask(CreateTopicsRequest([CreatableTopic("many", PARTITIONS, 1)])).topics
    assert (created.error_code, created.num_partitions) == (0, PARTITIONS)
    [topic] = client.ask(MetadataRequest(None)).topics
    assert [partition.leader_id >= 0 for partition in topic.partitions] == [True] * PARTITIONS
    for timestamp in (-1, -2, -3, 500):
        wanted = ListOffsetsTopic("many", [ListOffsetsPartition(index, -1, timestamp) for index in ALL])
        [found] = client.ask(ListOffsetsRequest(-1, 0, [wanted])).topics
        assert {partition.error_code for partition in found.partitions} == {0}
    epochs = OffsetForLeaderTopic("many", [OffsetForLeaderPartition(index, -1, 0) for index in ALL])
    client.ask(OffsetForLeaderEpochRequest(-1, [epochs]))
    client.ask_to_produce()
    client.ask(DescribeProducersRequest([TopicRequest("many", list(ALL))]))
    client.ask(DescribeLogDirsRequest(None))
    client.ask(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "many", None)], True, True))
    client.ask(DeleteRecordsRequest([DeleteRecordsTopic("many", [DeleteRecordsPartition(n, -1) for n in ALL])], 1000))
    for kind, name, setting in ((TOPIC, "many", "retention.ms"), (BROKER, "", "log.retention.ms")):
        changed = AlterConfigsResource(kind, name, [AlterableConfig(setting, SET, "1000000")])
        client.ask(IncrementalAlterConfigsRequest([changed]))
    commit_offsets(client)
    commit_in_transaction(client)
    for _ in range(3):
        client.scrape()
    [group] = client.ask(DeleteGroupsRequest(["g"])).results
    assert group.error_code == 0
    [deleted] = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState("many")])).responses
    assert deleted.error_code == 0
    assert "many" not in {topic.name for topic in client.ask(MetadataRequest(None)).topics}


def many_element_requests() -> Iterator[Request]:
    """Requests that name many things, most of which do not exist."""
    yield CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in NAMES], validate_only=True)
    yield DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in NAMES])
    yield MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], False)
    yield DescribeTopicPartitionsRequest([DescribedTopic(name) for name in NAMES])
    settings = [AlterableConfig("retention.ms", SET, "1000")]
    yield IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, name, settings) for name in NAMES])
    yield IncrementalAlterConfigsRequest(
        [AlterConfigsResource(TOPIC, "name", [AlterableConfig(name, SET, "1") for name in NAMES])]
    )
    yield ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in NAMES])
    yield OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None) for name in NAMES])
    yield DescribeGroupsRequest(NAMES)
    yield DeleteGroupsRequest(NAMES)
    yield LeaveGroupRequest("g", members=[MemberIdentity(str(number)) for number in range(5 * ELEMENTS)])
    yield ListTransactionsRequest([], list(range(ELEMENTS)))
    no_topics = [AddPartitionsToTxnTransaction(name, number, 0) for number, name in enumerate(NAMES)]
    yield AddPartitionsToTxnRequest(transactions=no_topics)
    yield FetchRequest(topics=[FetchTopic(topic_id=UUID(int=1), partitions=[FetchPartition(index) for index in ALL])])
    markers = [WritableTxnMarker(number, 0, True, [WritableTxnMarkerTopic("name", [0])]) for number in range(ELEMENTS)]
    yield WriteTxnMarkersRequest(markers)
    yield from administrative_requests()


def administrative_requests() -> Iterator[Request]:
    """Requests of administrators, which change nothing here."""
    users = [EntityData("user", name) for name in NAMES]
    ops = [OpData("producer_byte_rate", 1000.0)]
    yield AlterClientQuotasRequest([QuotaAlteration([user], ops) for user in users], validate_only=True)
    yield AlterUserScramCredentialsRequest([ScramCredentialDeletion(str(n), 1) for n in reversed(range(5 * ELEMENTS))])
    yield CreateAclsRequest([AclCreation(TOPIC, name, 3, "User:nobody", "*", 3, 3) for name in NAMES])
    yield DeleteAclsRequest([DeleteAclsFilter(TOPIC, name, 3, None, None, 1, 1) for name in NAMES])
    yield AlterReplicaLogDirsRequest([AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic("name", list(ALL))])])


def test_requests_with_many_elements_give_way(client: Client) -> None:
    for request in many_element_requests():
        client.check(partial(client.ask, request))


def many_partition_requests() -> Iterator[Request]:
    """Requests that name many partitions of one topic."""
    many = range(4 * PARTITIONS)
    offsets = [OffsetCommitRequestPartition(index, 1) for index in many]
    yield OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("name", offsets)])
    yield ListOffsetsRequest(-1, 0, [ListOffsetsTopic("name", [ListOffsetsPartition(index, -1, -1) for index in many])])
    yield DescribeProducersRequest([TopicRequest("name", list(many))])
    yield WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("name", list(many))])])


def test_denials_give_way(denied_client: Client) -> None:
    for request in (*many_element_requests(), *many_partition_requests()):
        denied_client.check(partial(denied_client.ask, request))
