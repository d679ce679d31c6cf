"""A process that can only be a controller, and what tests ask of it and of the brokers that obey it."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import attrs
from kazoo.exceptions import NoNodeError

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from pylogbroker.wire import Request, decode_response_header, request_codec, response_codec
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest
from pylogbroker.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.newest_versions import newest
from tests.cluster.cluster import Cluster
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

CONTROLLER: Final = 3
_PRODUCE_VERSION: Final = 8
_ANSWER_SECONDS_MAX: Final = 60.0


def ask(address: str, request: Request, version: int | None = None) -> Any:
    """Send a request on a connection of its own; return the response."""
    host, _, port = address.rpartition(":")
    key, version = request.api_key, newest(request.api_key) if version is None else version
    with socket.create_connection((host, int(port)), _ANSWER_SECONDS_MAX) as connection:
        connection.sendall(b"".join(request_codec(key, version).frame(1, "test", request)))
        answer = connection.makefile("rb")
        frame = memoryview(answer.read(*struct.unpack(">i", answer.read(4))))
    _, position = decode_response_header(frame, key, version)
    return response_codec(key, version).decode(frame, position)


@attrs.frozen
class ControllerProcess:
    process: LineProcess
    address: str

    def order(self, name: str, topic: str, *arguments: Any) -> None:
        self.process.send(json.dumps([name, topic, *arguments]))
        outcome = self.process.expect(f"(done|failed) {name}.*")
        assert outcome[1] == "done", outcome[0]

    def reassign(self, topic: str, partition: int, *replicas: int) -> None:
        wanted = [ReassignableTopic(topic, [ReassignablePartition(partition, list(replicas))])]
        [answered] = ask(self.address, AlterPartitionReassignmentsRequest(topics=wanted)).responses
        assert [each.error_code for each in answered.partitions] == [0]

    def reassigned(self) -> list[tuple[str, list[int]]]:
        """Return the topics under reassignment, and the replicas of their first partition."""
        topics = ask(self.address, ListPartitionReassignmentsRequest()).topics
        return [(topic.name, topic.partitions[0].replicas) for topic in topics]

    def elect_preferred(self) -> dict[str, list[tuple[int, int]]]:
        results = ask(self.address, ElectLeadersRequest(0, None)).replica_election_results
        return {
            topic.topic: [(each.partition_id, each.error_code) for each in topic.partition_result] for topic in results
        }


@contextmanager
def running_controller(
    zookeeper: str, protocol: str, number: int = CONTROLLER, kill: str = ""
) -> Iterator[ControllerProcess]:
    """Start a controller; `kill` names one of its commits: it dies there, as `controller_process` says."""
    program = "tests.cluster.controller_process"
    command = [sys.executable, "-m", program, zookeeper, str(number), protocol, *([kill] if kill else [])]
    with LineProcess(command) as process:
        port = process.expect(r"^listening (\d+)")[1]
        yield ControllerProcess(process, f"127.0.0.1:{port}")


def produce(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    """Append records at the leader, as soon as it leads; all in-sync replicas acknowledge them."""
    now_ms = int(time.time() * 1000)  # records of 1970 would be deleted
    batch = build([Record(number, now_ms, None, b"%d" % number) for number in range(count)])
    data = [TopicProduceData(topic, [PartitionProduceData(partition, memoryview(batch))])]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
    errors: list[int] = []

    def is_appended() -> bool:
        leader = cluster.members[cluster.wait_for_leader(topic, partition)]
        [answered] = ask(leader.bootstrap, request, _PRODUCE_VERSION).responses
        errors.append(answered.partition_responses[0].error_code)
        assert errors[-1] in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return not errors[-1]

    wait_until(is_appended, what=lambda: errors[-3:])


def depose(cluster: Cluster) -> None:
    """Remove the controller's node, so that all stand for election."""
    with suppress(NoNodeError):
        cluster.tree.client.delete("/controller")


def depose_until_own(cluster: Cluster) -> None:
    """Remove the controller's node until this project's process is the controller."""

    def is_elected() -> bool:
        if cluster.controller() in (1, 2):
            depose(cluster)
        return cluster.controller() == CONTROLLER

    wait_until(is_elected)
