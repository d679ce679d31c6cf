"""Requests of 0.7 with as many parts as the protocol can count do not keep the reactor from other connections."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pylogbroker.legacy07.wire import Fetch, FetchRange, MultiFetch, MultiProduce, Production, encode_legacy07_request
from tests.legacy07 import message_sets
from tests.legacy07.conftest import SimpleBroker
from tests.legacy07.test_requests_in_process import receive
from tests.support.budget import Budget
from tests.support.reactor_stalls import check_stalls, watching

PARTS = 32_767
WAIT_SECONDS_MAX = 300
TOPIC, WRONG_PARTITION = "long", 3
MESSAGE = message_sets.message(b"value")


@pytest.fixture
def watched(tmp_path: Path, budget: Budget) -> Iterator[SimpleBroker]:
    """A broker that watches its reactor."""
    broker = SimpleBroker(tmp_path, watching(budget))
    broker.start()
    yield broker
    broker.kill()


def test_requests_of_many_parts_give_way(watched: SimpleBroker, budget: Budget) -> None:
    check_stalls(watched, budget, lambda attempt: send_many_parts(watched, f"{TOPIC}-{attempt}"))


def send_many_parts(watched: SimpleBroker, topic: str) -> None:
    produced = [Production(topic, 0, MESSAGE)] * PARTS
    last = FetchRange(topic, 0, len(MESSAGE) * (PARTS - 1), 1 << 20)
    ranges = [FetchRange(topic, number % 2, len(MESSAGE) * number, len(MESSAGE)) for number in range(PARTS)]
    parts = [
        message_sets.answer(WRONG_PARTITION if each.partition else 0, b"" if each.partition else MESSAGE)
        for each in ranges
    ]
    with watched.connect() as connection:
        connection.settimeout(WAIT_SECONDS_MAX)
        connection.sendall(encode_legacy07_request(MultiProduce(produced)))
        connection.sendall(encode_legacy07_request(Fetch(last)))  # waits for the produce
        assert receive(connection) == message_sets.answer(0, MESSAGE)
        connection.sendall(encode_legacy07_request(MultiFetch(ranges)))
        assert receive(connection) == message_sets.answer(0, b"".join(parts))


def test_a_long_request_that_is_cut_off_closes_the_connection(watched: SimpleBroker) -> None:
    request = encode_legacy07_request(MultiFetch([FetchRange(TOPIC, 0, 0, 1)] * PARTS))[4:-1]
    with watched.connect() as connection:
        connection.settimeout(WAIT_SECONDS_MAX)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    watched.process.expect("bad request: a field of 4 bytes where 3 are left", WAIT_SECONDS_MAX)
