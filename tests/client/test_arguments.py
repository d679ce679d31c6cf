"""Wrong arguments of clients: each is an error at once that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pylogbroker.client import ConsumerConnector, Producer, SimpleConsumer, arguments, sync
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.errors import ConfigError

Call = Callable[[], Any]


def simple() -> SimpleConsumer:
    return SimpleConsumer("127.0.0.1", 9)


def connector() -> ConsumerConnector:
    made = ConsumerConnector("127.0.0.1:9", group="g")
    made._assigned.buffers["t", 0] = FetchBuffer("t", 0, 100)
    return made


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: connector().seek("t", 0, -3), r"offset: -3"),
        (lambda: connector().seek("t", 0, "1"), r"offset: '1'"),
        (lambda: connector().seek("t", 0, 1 << 63), r"offset: 9223372036854775808"),
        (lambda: connector().commit_offsets({("t", 0): "1"}), r"offsets\[\('t', 0\)\]: '1'"),
        (lambda: connector().commit_offsets({("t", 0): -1}), r"offsets\[\('t', 0\)\]: -1"),
        (lambda: connector().commit_offsets({"t": 1}), r"offsets: 't' .* \(topic, partition\)"),
        (lambda: connector().commit_offsets({("t", "0"): 1}), r"offsets: '0'"),
        (lambda: connector().commit_offsets([("t", 0)]), r"offsets: \[\('t', 0\)\]"),
        (lambda: connector().committed(["t"]), r"partitions: 't'"),
        (lambda: connector().committed("t"), r"partitions: 't'"),
        (lambda: ConsumerConnector("127.0.0.1:9", group=5), r"group: 5"),
        (lambda: simple().fetch("t", 0, "0"), r"offset: '0'"),
        (lambda: simple().fetch("t", 0, None), r"offset: None"),
        (lambda: simple().fetch("t", "0", 0), r"partition: '0'"),
        (lambda: simple().fetch(5, 0, 0), r"topic: 5"),
        (lambda: simple().fetch("t", 0, 0, -5), r"max_bytes: -5"),
        (lambda: simple().fetch("t", 0, 0, max_wait_ms="5"), r"max_wait_ms: '5'"),
        (lambda: simple().fetch("t", 0, 0, min_bytes=-1), r"min_bytes: -1"),
        (lambda: simple().multifetch(["t"]), r"specs: 't' .*\(topic, partition, offset\)"),
        (lambda: simple().multifetch("t"), r"specs: 't'"),
        (lambda: simple().multifetch([("t", 0)]), r"specs: \('t', 0\)"),
        (lambda: simple().multifetch([("t", 0, "1")]), r"offset: '1'"),
        (lambda: simple().get_offsets_before("t", 0, "now"), r"time: 'now'"),
        (lambda: simple().get_offsets_before("t", 0, -1, 0), r"max_offsets: 0"),
        (lambda: simple().commit_offsets(5, {("t", 0): 1}), r"group: 5"),
        (lambda: simple().commit_offsets("g", {("t", 0): None}), r"offsets\[\('t', 0\)\]: None"),
        (lambda: simple().fetch_offsets("g", [("t", None)]), r"partitions: None"),
        (lambda: simple().fetch_offsets("", [("t", 0)]), r"group: ''"),
        (lambda: SimpleConsumer("127.0.0.1", "9092"), r"port: '9092'"),
        (lambda: SimpleConsumer("127.0.0.1", 0), r"port: 0"),
        (lambda: SimpleConsumer("127.0.0.1:9092"), r"host: '127\.0\.0\.1:9092' .*without a port"),
        (lambda: SimpleConsumer(9092), r"host: 9092"),
        (lambda: SimpleConsumer(settings=["a=b"]), r"settings: \['a=b'\]"),
        (lambda: ConsumerConnector("127.0.0.1:9", group="g", settings="a=b"), r"settings: 'a=b'"),
        (lambda: Producer("127.0.0.1:9", settings=["acks"]), r"settings: \['acks'\]"),
        (lambda: sync.Producer("127.0.0.1:9", timeout="5"), r"timeout: '5'"),
        (lambda: sync.ConsumerConnector("127.0.0.1:9", group="g", timeout=None), r"timeout: None"),
        (lambda: sync.SimpleConsumer(timeout=True), r"timeout: True"),
        (lambda: sync.SimpleConsumer("127.0.0.1", 9).fetch("t", 0, 0, timeout="5"), r"timeout: '5'"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_named(call: Call, argument: str) -> None:
    with pytest.raises(ConfigError, match=f"^{argument}") as caught:
        call()
    assert "is not accepted; expected" in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert type(arguments.offset("offset", np.int64(7))) is int
    assert arguments.offsets("offsets", {("t", np.int32(1)): np.int64(7)}) == {("t", 1): 7}


@pytest.mark.parametrize("host", ["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "broker-1.example.org"])
def test_hosts(host: str) -> None:
    assert SimpleConsumer(host, 9092).address.host == host
