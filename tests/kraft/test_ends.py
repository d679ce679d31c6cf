"""Brokers that cannot stay in their cluster: they stop, with the reason in one line."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, eventAsText

from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.client import Producer
from pylogbroker.errors import BrokerEnded, ErrorCode, StartupError
from pylogbroker.metadata.zk_schema import id_text
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pylogbroker.wire.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    UserScramCredentialRecord,
)
from tests.kraft.logs import Entry
from tests.kraft.model_controller import CLUSTER_ID, ModelController
from tests.kraft.served import served_controller
from tests.kraft.test_members import CONTROLLER, Cluster
from tests.support.broker_process import BrokerProcess


@attrs.frozen
class NewerEntry(Entry):
    """A batch with one record of a type that this release does not know."""

    @property
    def end(self) -> int:
        return self.base + 1

    @property
    def encoded(self) -> bytes:
        return build([Record(0, 1000, None, b"\1\x1e\0\0")], base_offset=self.base, leader_epoch=self.epoch)


def append_newer(controller: ModelController) -> None:
    """Append a record that only a newer release knows."""
    controller.log.entries.append(NewerEntry(controller.log.end, controller.epoch, ()))
    controller.commit()


def line_of_end(cluster: Cluster, ended: Deferred[None]) -> str:
    """Return the line of a broker that stops by itself."""
    with capturedLogs() as events, pytest.raises(BrokerEnded):
        cluster.reactor.run(ended, seconds=40)
    [line] = [eventAsText(event) for event in events if "leaves the cluster" in eventAsText(event)]
    return line


def test_a_record_of_a_newer_release_stops_the_broker(cluster: Cluster) -> None:
    cluster.start(1)
    service = cluster.services[1]
    cluster.controller.create_topic("orders", {0: [1]})
    cluster.reactor.advance(1)
    producer = Producer(cluster.bootstrap, reactor=cluster.reactor)
    cluster.run(producer.send("orders", b"kept"))
    ended = service.ended
    append_newer(cluster.controller)
    line = line_of_end(cluster, ended)
    assert re.search("stops: the metadata .* of type 30 are not known; a newer release of pylogbroker is needed", line)
    assert cluster.reactor.find_port(9001) is None
    assert not service.running
    assert cluster.controller.members[1].is_fenced
    assert cluster.sent(BrokerHeartbeatRequest)[-1].want_shut_down
    assert (cluster.directory / "1" / ".kafka_cleanshutdown").exists()
    cluster.run(producer.close())


@pytest.mark.parametrize("is_connected", [True, False], ids=["hangs", "is gone"])
def test_an_end_does_not_wait_for_controllers_that_do_not_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_connected: bool
) -> None:
    cluster.start(1)
    if is_connected:
        monkeypatch.setattr(ModelController, "commit", lambda controller, end=None: None)
        cluster.controller.holds_commits = True
        cluster.controller.append(NoOpRecord())  # answers wait for its commit
    else:
        cluster.reactor.find_port(CONTROLLER).stopListening()  # type: ignore[union-attr]
        role = cluster.broker(1).role
        assert isinstance(role, KraftRole)
        role._quorum.leader_lost()
    began = cluster.reactor.seconds()
    with capturedLogs() as events:
        cluster.stop(1)
    assert cluster.reactor.seconds() - began < 8
    assert any("no controller answers: this broker stops" in eventAsText(event) for event in events)


def test_a_broker_starts_again_when_the_cause_is_gone(cluster: Cluster) -> None:
    cluster.start(1)
    ended = cluster.services[1].ended
    append_newer(cluster.controller)
    line_of_end(cluster, ended)
    cluster.controller.begin_with_snapshot()
    broker = cluster.start(1)
    assert broker.role.ended.called is False
    ended = cluster.services[1].ended
    cluster.stop(1)
    cluster.reactor.run(ended)


@pytest.mark.parametrize(
    "record",
    [
        AccessControlEntryRecord(uuid.uuid4(), 99, "t", 3, "User:a", "*", 3, 3),
        UserScramCredentialRecord("a", 99, b"s", b"k", b"v", 4096),
        ConfigRecord(4, "no number", "num.io.threads", "3"),
    ],
)
def test_a_value_of_a_newer_release_stops_the_broker(cluster: Cluster, record: MetadataRecord) -> None:
    cluster.start(1)
    ended = cluster.services[1].ended
    cluster.controller.append(record)
    line = line_of_end(cluster, ended)
    assert f"a value of a {type(record).__name__} is not known" in line
    assert "a newer release of pylogbroker is needed" in line


def test_a_registration_that_is_rejected_later_stops_the_broker(cluster: Cluster) -> None:
    cluster.start(1)
    ended = cluster.services[1].ended
    cluster.controller.registration_error = ErrorCode.INVALID_REGISTRATION
    cluster.controller.members[1].epoch += 1000  # as of another registration
    line = line_of_end(cluster, ended)
    assert "INVALID_REGISTRATION: the controllers reject the listeners, features or log directories" in line
    assert cluster.reactor.find_port(9001) is None


def test_a_record_of_a_newer_release_ends_a_start(cluster: Cluster) -> None:
    service = cluster.begin(1)
    assert cluster.reactor.run_until(lambda: 1 in cluster.controller.members)
    cluster.controller.members[1].epoch += 1000  # it cannot get unfenced
    append_newer(cluster.controller)
    with pytest.raises(StartupError, match="of type 30 are not known; a newer release"):
        cluster.reactor.run(service.listening)
    cluster.services.clear()
    assert cluster.reactor.find_port(9001) is None


@pytest.mark.process
def test_the_process_ends_with_status_1(tmp_path: Path) -> None:
    with served_controller() as served:
        settings = {
            "process.roles": "broker",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": served.address,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        broker = BrokerProcess(tmp_path, settings)
        broker.data_dir.mkdir()
        (broker.data_dir / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\ndirectory.id={id_text(uuid.uuid4())}\n"
        )
        broker.start()
        try:
            served.call(append_newer)
            assert broker.process.wait() == 1
        finally:
            broker.kill()
        lines = [line for line in broker.log_lines() if "critical" in line]
        assert len(lines) == 1
        assert "this broker leaves the cluster, and stops: the metadata of the cluster cannot be followed" in lines[0]
