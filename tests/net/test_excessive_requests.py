"""Small requests for very much, against a broker in a process that has little memory and goes on serving."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import decode_response_header, request_codec, response_codec
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.net.test_hostile_peers import MEGABYTE, Peer
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose address space is limited, so that what takes all memory fails, and not the machine."""
    running = BrokerProcess(tmp_path_factory.mktemp("excess"), {})
    running.start()
    resource.prlimit(running.process.pid, resource.RLIMIT_AS, (3000 * MEGABYTE, 3000 * MEGABYTE))
    yield running
    running.kill()


@pytest.fixture
def peer(process: BrokerProcess) -> Iterator[Peer]:
    connected = Peer(process)
    yield connected
    connected.socket.close()


def partition_counts(peer: Peer, name: str) -> list[int]:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    frame = memoryview(peer.ask(asked, 9))
    _, position = decode_response_header(frame, 3, 9)
    return [len(topic.partitions) for topic in response_codec(3, 9).decode(frame, position).topics]


def test_a_topic_cannot_get_two_billion_partitions(peer: Peer) -> None:
    creation = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)])
    enlargement = CreatePartitionsRequest([CreatePartitionsTopic("t", 2**31 - 1, None)])
    frames = [*request_codec(19, 7).frame(1, "peer", creation), *request_codec(37, 3).frame(2, "peer", enlargement)]
    peer.socket.sendall(b"".join(map(bytes, frames)))
    peer.answer()
    assert int(ErrorCode.POLICY_VIOLATION).to_bytes(2, "big") in peer.answer()
    assert partition_counts(peer, "t") == [1]


def test_a_million_topics_without_a_name(process: BrokerProcess, peer: Peer) -> None:
    peer.send(MetadataRequest([MetadataRequestTopic(name="")] * 1_000_000), 1)
    peer.wait_for_end()
    process.process.expect("closing the connection .*MetadataRequest v1 has more than 50000 elements")
    assert partition_counts(Peer(process), "no-such-topic") == [0]
