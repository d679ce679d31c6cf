"""Brokers of this project in memory, in a cluster of a model of a KRaft controller."""

from __future__ import annotations

import uuid
from math import inf
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import ensureDeferred
from twisted.logger import capturedLogs, eventAsText

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.client import AdminClient, ConsumerConnector, Producer
from pylogbroker.client.admin.topics import NewTopic
from pylogbroker.errors import ErrorCode, StartupError
from pylogbroker.metadata.zk_schema import id_text, parse_id
from pylogbroker.rpc.settings import Address
from pylogbroker.tap.service import BrokerService
from pylogbroker.testing.memory_network import MemoryReactor
from pylogbroker.testing.settings import QUICK
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest
from pylogbroker.wire.messages.envelope import EnvelopeRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from tests.kraft.controller_connection import connections_to
from tests.kraft.model_controller import CLUSTER_ID, CONTROLLER_ID, SESSION_SECONDS, ModelController

CONTROLLER = 9093
SETTINGS = {
    **QUICK,
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": f"127.0.0.1:{CONTROLLER}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "log.cleaner.enable": "false",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
    "initial.broker.registration.timeout.ms": "20000",
}


class Service(BrokerService):
    def start_failed(self, reason: Any) -> None:
        """Log nothing: the test gets the error."""


@attrs.define
class Cluster:
    """A controller, and brokers by id."""

    reactor: MemoryReactor
    directory: Path
    controller: ModelController
    services: dict[int, BrokerService] = attrs.field(factory=dict)

    def format(self, number: int, cluster_id: str = CLUSTER_ID) -> Path:
        path = self.directory / str(number)
        path.mkdir()
        meta = f"version=1\nnode.id={number}\ncluster.id={cluster_id}\ndirectory.id={id_text(uuid.uuid4())}\n"
        (path / "meta.properties").write_text(meta)
        return path

    def begin(self, number: int, **settings: str) -> BrokerService:
        """Begin to start a broker."""
        path = self.directory / str(number)
        if not path.exists():
            self.format(number)
        given = {
            **SETTINGS,
            "node.id": str(number),
            "log.dirs": str(path),
            "listeners": f"PLAINTEXT://127.0.0.1:{9000 + number}",
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        service = self.services[number] = Service(self.reactor, given, self.reactor)
        service.startService()
        return service

    def start(self, number: int, **settings: str) -> Broker:
        """Start a broker; raise StartupError."""
        service = self.begin(number, **settings)
        self.reactor.run(service.listening, seconds=200)
        return self.broker(number)

    def broker(self, number: int) -> Broker:
        serving = self.services[number]._serving
        assert serving is not None
        serving.broker.runtime.slices.seconds = inf  # measured in real time
        return serving.broker

    def stop(self, number: int) -> None:
        self.reactor.run(self.services.pop(number).stopService(), seconds=200)

    def run(self, work: Any) -> Any:
        return self.reactor.run(ensureDeferred(work) if hasattr(work, "send") else work)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{9000 + number}" for number in self.services)

    def sent(self, kind: type) -> list[Any]:
        return [request for request in self.controller.requests if isinstance(request, kind)]

    def consumer(self) -> ConsumerConnector:
        return ConsumerConnector(self.bootstrap, group="readers", auto_offset_reset="earliest", reactor=self.reactor)

    def leaders(self, topic: str) -> dict[int, int]:
        topic_id = self.controller.topics[topic]
        return {
            number: state.leader for (owner, number), state in self.controller.partitions.items() if owner == topic_id
        }


async def read(connector: ConsumerConnector, topic: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    streams = await connector.create_message_streams({topic: 1})
    async for message in streams[topic][0]:
        values.append(message.value)
        if len(values) == count:
            return values
    return values


def test_a_broker_registers_and_serves_once_it_is_unfenced(cluster: Cluster) -> None:
    broker = cluster.start(1)
    [registration] = cluster.sent(BrokerRegistrationRequest)
    assert (registration.broker_id, registration.cluster_id) == (1, CLUSTER_ID)
    assert [(end_point.name, end_point.port) for end_point in registration.listeners] == [("PLAINTEXT", 9001)]
    assert len(registration.log_dirs) == 1
    assert not cluster.controller.members[1].is_fenced
    cluster.reactor.advance(5)
    assert set(broker.metadata.image.brokers) == {1}
    heartbeats = cluster.sent(BrokerHeartbeatRequest)
    assert not any(heartbeat.want_fence for heartbeat in heartbeats[1:])
    assert broker.features.level("group.version") == 1


@pytest.mark.parametrize("cluster", [{}], indirect=True)
def test_a_broker_waits_for_the_first_metadata_of_a_new_cluster(cluster: Cluster) -> None:
    """The controllers write it in a transaction, which may be committed in part."""
    controller = cluster.controller
    controller.append(BeginTransactionRecord("Bootstrap records"), FeatureLevelRecord("metadata.version", 21))
    with capturedLogs() as events:
        service = cluster.begin(1)
        cluster.reactor.advance(30)
        assert not cluster.sent(BrokerRegistrationRequest)
        controller.append(AbortTransactionRecord("another controller leads"))
        controller.append(BeginTransactionRecord("Bootstrap records"), FeatureLevelRecord("metadata.version", 14))
        controller.append(EndTransactionRecord())
        cluster.reactor.run(service.listening, seconds=200)
    assert cluster.broker(1).features.levels == {"metadata.version": 14}
    lines = [line for line in map(eventAsText, events) if "waiting for the controllers" in line]
    assert len(lines) == 1


def test_a_broker_with_the_number_of_a_controller_does_not_start(cluster: Cluster) -> None:
    """The controllers would take its fetches for those of that controller."""
    with pytest.raises(StartupError, match=r"node\.id 100 is that of a controller: choose a number that no other node"):
        cluster.start(CONTROLLER_ID)
    fetches = [request.topics[0].partitions[0].fetch_offset for request in cluster.sent(FetchRequest)]
    assert fetches == [0]
    assert not cluster.sent(BrokerRegistrationRequest)


def test_clients_create_write_read_and_delete(cluster: Cluster) -> None:
    cluster.start(1)
    admin = AdminClient(cluster.bootstrap, reactor=cluster.reactor)
    cluster.run(admin.topics.create([NewTopic("orders", 2, configs={"retention.ms": "100000"})]))
    cluster.reactor.advance(1)
    [envelope] = cluster.sent(EnvelopeRequest)
    assert envelope.client_host_address == bytes([127, 0, 0, 1])
    assert envelope.request_principal == b"\0\0\5User\nANONYMOUS\0\0"
    producer = Producer(cluster.bootstrap, reactor=cluster.reactor)
    for value in (b"a", b"b", b"c"):
        cluster.run(producer.send("orders", value, partition=0))
    consumer = cluster.consumer()
    assert cluster.run(read(consumer, "orders", 3)) == [b"a", b"b", b"c"]
    assert cluster.broker(1).metadata.topic_settings("orders") == {"retention.ms": "100000"}
    cluster.run(consumer.shutdown())
    cluster.run(producer.close())
    cluster.run(admin.topics.delete(["orders"]))
    cluster.reactor.advance(2)
    assert "orders" not in cluster.broker(1).metadata.topics
    assert not list((cluster.directory / "1").glob("orders_*"))
    cluster.run(admin.close())


def test_each_api_has_the_services_that_it_declares(cluster: Cluster) -> None:
    broker = cluster.start(1)
    for api in broker.apis:
        api.select_services(broker)


def test_a_reassignment_is_passed_on_and_followed(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.start(number)
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    admin = AdminClient(cluster.bootstrap, reactor=cluster.reactor)
    cluster.run(admin.replicas.reassign({("orders", 0): [2]}))
    cluster.reactor.advance(10)
    [state] = cluster.controller.partitions.values()
    assert (state.replicas, state.isr, state.leader, state.adding, state.removing) == ([2], [2], 2, [], [])
    assert ("orders", 0) in cluster.broker(2).logs.logs
    assert ("orders", 0) not in cluster.broker(1).logs.logs
    cluster.run(admin.close())


def test_the_epoch_of_features_does_not_go_back_at_a_restart(cluster: Cluster) -> None:
    """Clients keep the levels of the highest epoch that they have seen."""
    broker = cluster.start(1)
    cluster.controller.append(FeatureLevelRecord("eligible.leader.replicas.version", 1))
    cluster.reactor.advance(1)
    before = broker.features.epoch
    assert (broker.features.levels["eligible.leader.replicas.version"], before) == (1, broker.role.metadata_offset())
    cluster.stop(1)
    cluster.controller.members[1].is_leaving = False
    broker = cluster.start(1)
    assert broker.features.epoch > before > 0
    assert broker.features.supported["eligible.leader.replicas.version"].last == 1


def test_followers_catch_up_and_lead_after_a_failure(cluster: Cluster) -> None:
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.controller.create_topic("orders", {0: [1, 2, 3]})
    cluster.reactor.advance(1)
    producer = Producer(cluster.bootstrap, acks="all", reactor=cluster.reactor)
    cluster.run(producer.send("orders", b"first"))
    cluster.controller.fence(1)
    assert cluster.leaders("orders") == {0: 2}
    cluster.reactor.advance(1)
    cluster.run(producer.send("orders", b"second"))
    logs = [cluster.broker(number).logs.logs["orders", 0].log_end_offset for number in (2, 3)]
    assert logs == [2, 2]
    cluster.reactor.advance(60)  # broker 1 is unfenced by its heartbeats, and gets into sync again
    [state] = cluster.controller.partitions.values()
    assert sorted(state.isr) == [1, 2, 3]
    assert cluster.broker(1).logs.logs["orders", 0].log_end_offset == 2
    cluster.run(producer.close())


def test_a_broker_that_was_cut_off_for_long_gets_into_sync_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        cluster.start(number)
    cluster.controller.create_topic("orders", {0: [1, 2]})
    cluster.reactor.advance(1)
    role = cluster.broker(1).role
    assert isinstance(role, KraftRole)
    with monkeypatch.context() as cut:
        open_channel = role._quorum._open_channel
        cut.setattr(role._quorum, "_open_channel", lambda address: open_channel(Address("127.0.0.1", 1)))
        role._quorum.leader_lost()
        with capturedLogs() as events:
            cluster.reactor.advance(600)
    lines = [eventAsText(event) for event in events if event["log_namespace"].startswith("pylogbroker.broker.kraft")]
    assert 10 <= len(lines) <= 22  # two a minute
    assert cluster.leaders("orders") == {0: 2}
    producer = Producer(cluster.bootstrap, acks="all", reactor=cluster.reactor)
    cluster.run(producer.send("orders", b"tea"))
    cluster.reactor.advance(60)
    [state] = cluster.controller.partitions.values()
    assert sorted(state.isr) == [1, 2]
    assert cluster.broker(1).logs.logs["orders", 0].log_end_offset == 1
    cluster.run(producer.close())


def test_a_controlled_shutdown_moves_leaderships_first(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    cluster.controller.create_topic("orders", {0: [1, 2]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    assert cluster.leaders("orders") == {0: 2}
    assert cluster.controller.members[1].is_leaving
    epoch = cluster.controller.members[1].epoch
    assert (cluster.directory / "1" / ".kafka_cleanshutdown").read_text() == f'{{"version":0,"brokerEpoch":{epoch}}}'
    cluster.start(1)
    assert cluster.sent(BrokerRegistrationRequest)[-1].previous_broker_epoch == epoch
    cluster.reactor.advance(30)
    [state] = cluster.controller.partitions.values()
    assert sorted(state.isr) == [1, 2]


def test_directories_of_replicas_are_reported(cluster: Cluster) -> None:
    one, two = cluster.format(1), cluster.format(2)
    meta = (two / "meta.properties").read_text()
    (two / "meta.properties").write_text(meta.replace("node.id=2", "node.id=1"))
    broker = cluster.start(1, log_dirs=f"{one},{two}")
    [registration] = cluster.sent(BrokerRegistrationRequest)
    topic_id = cluster.controller.create_topic("orders", {number: [1] for number in range(4)})
    cluster.reactor.advance(1)
    paths = {directory.path: parse_id(str(directory.id)) for directory in broker.logs.directories}
    assert set(registration.log_dirs) == set(paths.values())
    held = {number: paths[str(Path(log.path).parent)] for (_, number), log in broker.logs.logs.items()}
    assert len(set(held.values())) == 2
    reported = {
        part.partition_index: directory.id
        for request in cluster.sent(AssignReplicasToDirsRequest)
        for directory in request.directories
        for topic in directory.topics
        for part in topic.partitions
    }
    assert reported == held
    count = len(cluster.sent(AssignReplicasToDirsRequest))
    assert count == 1
    cluster.controller.change(topic_id, 0, isr=[1])
    cluster.reactor.advance(1)
    assert len(cluster.sent(AssignReplicasToDirsRequest)) == count


def test_a_silent_broker_is_fenced(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    cluster.controller.members[1].heard -= SESSION_SECONDS
    cluster.controller.members[1].is_leaving = False
    broker = cluster.broker(2)
    cluster.controller.fence(1)
    cluster.reactor.advance(0.01)
    assert set(broker.metadata.image.brokers) == {2}


def test_records_are_read_again_from_a_snapshot(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.create_topic("orders", {0: [1], 1: [1]}, {"retention.ms": "7"})
    cluster.controller.begin_with_snapshot()
    broker = cluster.start(2)
    assert set(broker.metadata.image.topics["orders"].partitions) == {0, 1}
    assert broker.metadata.topic_settings("orders") == {"retention.ms": "7"}
    cluster.controller.create_topic("later", {0: [2]})
    cluster.reactor.advance(1)
    assert ("later", 0) in broker.logs.logs


def test_uncommitted_records_are_not_seen_and_may_be_lost(cluster: Cluster) -> None:
    broker = cluster.start(1)
    cluster.controller.holds_commits = True
    cluster.controller.append(ConfigRecord(4, "", "log.retention.ms", "5"))
    cluster.reactor.advance(1)
    assert broker.config.integer("log.retention.ms") != 5
    cluster.controller.fail_over(2)
    cluster.controller.holds_commits = False
    cluster.controller.append(ConfigRecord(4, "", "log.retention.ms", "6"))
    cluster.reactor.advance(3)
    assert broker.config.integer("log.retention.ms") == 6
    assert not cluster.controller.members[1].is_fenced


@pytest.mark.parametrize(("end", "retention"), [(EndTransactionRecord(), 5), (AbortTransactionRecord("no"), -1)])
def test_records_of_a_metadata_transaction_come_together(cluster: Cluster, end: MetadataRecord, retention: int) -> None:
    broker = cluster.start(1, log_retention_ms="-1")
    cluster.controller.append(BeginTransactionRecord("several"), ConfigRecord(4, "", "log.retention.ms", "5"))
    cluster.reactor.advance(1)
    assert broker.config.integer("log.retention.ms") == -1
    cluster.controller.append(end)
    cluster.reactor.advance(1)
    assert broker.config.integer("log.retention.ms") == retention


def test_a_broker_that_starts_again_serves_what_it_has(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    producer = Producer(cluster.bootstrap, reactor=cluster.reactor)
    cluster.run(producer.send("orders", b"kept"))
    cluster.run(producer.close())
    cluster.stop(1)
    cluster.controller.members[1].is_leaving = False
    cluster.start(1)
    cluster.reactor.advance(2)
    consumer = cluster.consumer()
    assert cluster.run(read(consumer, "orders", 1)) == [b"kept"]
    cluster.run(consumer.shutdown())


def test_replicas_take_no_role_before_the_broker_has_read_its_registration(cluster: Cluster) -> None:
    """An earlier state names a leader by its former life, whose last records may be lost."""
    cluster.start(1)
    cluster.start(2)
    topic_id = cluster.controller.create_topic("orders", {0: [1, 2]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    former = cluster.controller.members[1]
    former.is_fenced, former.heard = False, cluster.reactor.seconds()
    cluster.controller.change(topic_id, 0, leader=1, isr=[1, 2])
    service = cluster.begin(1)
    cluster.reactor.advance(SESSION_SECONDS / 2)
    assert service._starting is not None
    starting = service._starting._assembled
    assert starting is not None
    assert starting.metadata.topics["orders"].partitions[0].leader == 1
    assert not starting.role.replicas.has_role(("orders", 0))
    cluster.reactor.run(service.listening, seconds=60)
    assert cluster.leaders("orders") == {0: 2}
    assert starting.role.replicas.has_role(("orders", 0))


def test_logs_of_replicas_that_were_moved_meanwhile_are_quarantined(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2)
    topic_id = cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    cluster.stop(1)
    cluster.controller.change(topic_id, 0, replicas=[2], isr=[2], leader=2)
    with capturedLogs() as events:
        cluster.start(1)
    assert [path.name.endswith("-stray") for path in (cluster.directory / "1").glob("orders*")] == [True]
    assert any("orders-0 is not this broker's any more" in eventAsText(event) for event in events)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (FeatureLevelRecord("other.version", 1), "the cluster has the feature other.version at level 1"),
        (FeatureLevelRecord("streams.version", 2), "streams.version at level 2, this release supports 0 to 1"),
        (FeatureLevelRecord("share.version", 9), "share.version at level 9, this release supports 0 to 2"),
    ],
)
def test_a_feature_beyond_this_release_is_named(cluster: Cluster, record: MetadataRecord, reason: str) -> None:
    cluster.controller.append(record)
    with pytest.raises(StartupError, match=reason):
        cluster.start(1)
    cluster.services.clear()
    assert cluster.sent(BrokerRegistrationRequest) == []


def test_another_clusters_directory_is_rejected(cluster: Cluster) -> None:
    cluster.format(1, "YW5vdGhlciBjbHVzdGVy")
    with pytest.raises(StartupError, match="INCONSISTENT_CLUSTER_ID"):
        cluster.start(1)
    cluster.services.clear()


def test_an_unformatted_directory_is_rejected(cluster: Cluster) -> None:
    (cluster.directory / "1").mkdir()
    with pytest.raises(StartupError, match=r"is not formatted .*`pylogbroker storage format"):
        cluster.start(1)
    cluster.services.clear()
    assert [path.name for path in (cluster.directory / "1").iterdir()] == [".lock"]


def test_the_number_of_another_broker_is_waited_for_and_rejected(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.controller.members[1].incarnation = uuid.UUID(int=1)
    path = cluster.format(7)
    (path / "meta.properties").write_text((path / "meta.properties").read_text().replace("node.id=7", "node.id=1"))
    given = {"node.id": "1", "log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:9007"}
    other = Service(cluster.reactor, SETTINGS | given, cluster.reactor)
    other.startService()
    with pytest.raises(StartupError, match="within 20 s"):
        cluster.reactor.run(other.listening, seconds=200)


def test_heartbeats_go_on_after_an_error_of_api_versions(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1)
    rejected = [ApiVersionsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)]
    answer = cluster.controller.answer

    def reject_once(request: Any, version: int, done: Any) -> None:
        if isinstance(request, ApiVersionsRequest) and rejected:
            done(rejected.pop())
        else:
            answer(request, version, done)

    port = cluster.reactor.find_port(CONTROLLER)
    assert port is not None
    port.close_now()
    cluster.reactor.listen("127.0.0.1", CONTROLLER, connections_to(reject_once))
    cluster.broker(1).role._quorum.leader_lost()
    cluster.reactor.advance(2 * SESSION_SECONDS)
    assert not rejected
    assert not cluster.controller.members[1].is_fenced


def test_a_broker_waits_for_controllers_that_do_not_answer(cluster: Cluster) -> None:
    port = cluster.reactor.find_port(CONTROLLER)
    assert port is not None
    port.close_now()
    service = cluster.begin(1)
    cluster.reactor.advance(30)
    assert not cluster.controller.members
    cluster.reactor.listen("127.0.0.1", CONTROLLER, cluster.controller.factory)
    cluster.reactor.run(service.listening, seconds=30)
    assert not cluster.controller.members[1].is_fenced
