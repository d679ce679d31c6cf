"""Values are written byte for byte as Apache Kafka 3.9 wrote them in a cluster of three brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylogbroker.metadata import zk_paths, zk_schema

CAPTURED = Path(__file__).parents[1] / "captured" / "znodes.txt"
NODE = re.compile(r"^[+~] (?P<path>/\S+)  v=\d+ .*czxid=(?P<czxid>\d+).*\n      (?P<data>.+)$", re.MULTILINE)
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    r"/brokers/ids/\d+": lambda data: zk_schema.encode_broker(
        zk_schema.decode_broker(data), int(json.loads(data)["timestamp"])
    ),
    r"/brokers/topics/[^/]+": lambda data: zk_schema.encode_topic(zk_schema.decode_topic(data)),
    r"/brokers/topics/[^/]+/partitions/\d+/state": lambda data: zk_schema.encode_partition(
        zk_schema.decode_partition(data)
    ),
    r"/config/(?!changes)\w+/[^/]+": lambda data: zk_schema.encode_config(zk_schema.decode_config(data)),
    "/cluster/id": lambda data: zk_schema.encode_cluster_id(zk_schema.decode_cluster_id(data)),
    "/latest_producer_id_block": lambda data: zk_schema.encode_producer_ids(zk_schema.decode_producer_ids(data)),
}


def captured() -> Iterator[re.Match[str]]:
    return NODE.finditer(CAPTURED.read_text())


@pytest.mark.parametrize("path", ENCODERS)
def test_values_are_kafkas(path: str) -> None:
    compared = 0
    for found in captured():
        if re.fullmatch(path, found["path"]) and found["data"].startswith("b'"):
            data = found["data"][2:-1].encode()
            assert ENCODERS[path](data) == data
            compared += 1
    assert compared > 0


def test_permanent_nodes_are_kafkas_in_its_order() -> None:
    first = {found["path"]: found for found in reversed(list(captured()))}
    ours = (zk_paths.BROKER_DIRECTORIES, zk_paths.CONFIG_GROUPS)
    permanent = [path for path in zk_paths.PERSISTENT if path not in ours]
    assert sorted(permanent, key=lambda path: int(first[path]["czxid"])) == permanent
    assert {first[path]["data"] for path in permanent} == {"'null'"}
