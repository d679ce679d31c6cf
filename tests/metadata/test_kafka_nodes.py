"""Nodes that Apache Kafka 3.9.2 and 2.7.2 wrote: read, and written again byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylogbroker.metadata import zk_schema
from tests.metadata.partition_lists import encode_partition_list

CAPTURES = Path(__file__).parents[1] / "captured"
BROKER_V5 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SASL_PLAINTEXT":"SASL_PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:28102","SASL_PLAINTEXT://127.0.0.1:28112"],"jmx_port":-1,"port":28102,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1795351518985"}'
)
BROKER_V4 = (
    b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:28201"],'
    b'"rack":"r1","jmx_port":-1,"port":28201,"host":"127.0.0.1","version":4,"timestamp":"1795351362664"}'
)
NODES = [
    ("/brokers/ids/1", BROKER_V5),
    ("/cluster/id", b'{"version":"1","id":"c49avW5qSAWzYCrrJrK0Rg"}'),
    (
        "/controller",
        b'{"version":2,"brokerid":1,"timestamp":"1795350716251","kraftControllerEpoch":-1}',
    ),
    ("/controller_epoch", b"12"),
    ("/feature", b'{"features":{},"version":2,"status":1}'),
    ("/feature", b'{"features":{},"version":1,"status":1}'),
    ("/feature", b'{"features":{},"version":1,"status":0}'),
    (
        "/brokers/topics/orders",
        b'{"partitions":{"0":[3,2,1],"1":[2,3,1],"2":[3,1,2]},"topic_id":"K0QHHXQSTwafd7tGOXo1dA",'
        b'"adding_replicas":{},"removing_replicas":{"0":[1]},"version":3}',
    ),
    (
        "/brokers/topics/t",
        b'{"partitions":{"0":[2,3,1],"1":[3,1,2]},"adding_replicas":{},"removing_replicas":{},"version":3}',
    ),
    (
        "/brokers/topics/t/partitions/0/state",
        b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":2,"isr":[1001]}',
    ),
    (
        "/brokers/topics/t/partitions/0/state",
        b'{"controller_epoch":2,"leader":1001,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1001]}',
    ),
    ("/config/topics/orders", b'{"version":1,"config":{"retention.ms":"60000"}}'),
    ("/latest_producer_id_block", b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}'),
    (
        "/isr_change_notification/isr_change_0000000000",
        b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":0}]}',
    ),
    ("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":1,"event":1}'),
    (
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}',
    ),
    ("/admin/preferred_replica_election", b'{"version":1,"partitions":[{"topic":"orders","partition":1}]}'),
]


def rewritten(path: str, data: bytes) -> bytes | None:
    """Return the node's data, decoded and encoded again; None for nodes without a schema here."""
    root, _, rest = path.removeprefix("/").partition("/")
    if root == "brokers" and rest.startswith("ids/"):
        stamp = re.search(rb'"timestamp":"(\d+)"', data)
        assert stamp
        return zk_schema.encode_broker(zk_schema.decode_broker(data), int(stamp[1]))
    if path.endswith("/state"):
        return zk_schema.encode_partition(zk_schema.decode_partition(data))
    if root == "brokers" and rest.startswith("topics/"):
        return zk_schema.encode_topic(zk_schema.decode_topic(data))
    if path == "/controller":
        return zk_schema.encode_controller(zk_schema.decode_controller(data))
    if path == "/controller_epoch":
        return zk_schema.encode_controller_epoch(zk_schema.decode_controller_epoch(data))
    if path == "/feature":
        return zk_schema.encode_features(zk_schema.decode_features(data))
    if path == "/cluster/id":
        return zk_schema.encode_cluster_id(zk_schema.decode_cluster_id(data))
    if path.startswith("/config/topics/"):
        return zk_schema.encode_config(zk_schema.decode_config(data))
    if path == "/latest_producer_id_block":
        block = zk_schema.decode_producer_ids(data)
        assert block
        return zk_schema.encode_producer_ids(block)
    if path.startswith("/isr_change_notification/") or path == "/admin/preferred_replica_election":
        return encode_partition_list(zk_schema.decode_partition_list(data))
    if path.startswith("/log_dir_event_notification/"):
        return zk_schema.encode_log_dir_event(zk_schema.decode_log_dir_event(data))
    if path == "/admin/reassign_partitions":
        return zk_schema.encode_reassignments(zk_schema.decode_reassignments(data))
    return None


@pytest.mark.parametrize(("path", "data"), NODES)
def test_a_node(path: str, data: bytes) -> None:
    assert rewritten(path, data) == data


def captured(name: str) -> Iterator[tuple[str, bytes]]:
    path = ""
    for line in (CAPTURES / name).read_text().splitlines():
        head = re.match(r"[+~] (/\S*)  v=", line)
        if head:
            path = head[1]
        data = re.match(r" +(?:was v=\d+ )?b'(.*)'$", line)
        if data and path:
            yield path, data[1].encode()


@pytest.mark.parametrize("name", ["znodes.txt", "znodes-sasl.txt", "znodes-ibp27.txt", "znodes-ibp26.txt"])
def test_all_captured_nodes(name: str) -> None:
    found = 0
    for path, data in captured(name):
        again = rewritten(path, data)
        if path == "/controller" and b"kraftControllerEpoch" not in data:  # 2.7.2 writes version 1, which 3.9 reads
            assert zk_schema.decode_controller(data).broker == 2
        elif path.startswith("/brokers/ids/") and b'"version":4' in data:  # below 2.7: read, and never written
            assert zk_schema.decode_broker(data).features == {}
        elif again is not None:
            assert again == data, path
            found += 1
    assert found > 15


def test_a_broker_of_an_older_cluster() -> None:
    assert zk_schema.decode_broker(BROKER_V4).endpoints == ("PLAINTEXT://127.0.0.1:28201",)


@pytest.mark.parametrize("data", [None, b"", b"[]", b'{"partitions":[1]}', b'{"partitions":[{"topic":"t"}]}'])
def test_unreadable_lists_of_tools_are_empty(data: bytes | None) -> None:
    assert zk_schema.decode_partition_list(data) == []
    assert zk_schema.decode_reassignments(data) == {}
    assert zk_schema.decode_log_dir_event(data) is None


def test_a_node_without_data_is_bad() -> None:
    decoders: list[Callable[[bytes | None], object]] = [
        zk_schema.decode_controller,
        zk_schema.decode_controller_epoch,
        zk_schema.decode_features,
    ]
    for decode in decoders:
        with pytest.raises(zk_schema.BadNode, match="no data"):
            decode(None)
