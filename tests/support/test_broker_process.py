"""The broker process of the tests: as a member of a cluster needs it, on one port and directory over its lives."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.processes import free_ports
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def member(tmp_path: Path) -> Iterator[BrokerProcess]:
    [port] = free_ports(1)
    settings = {"broker.id": "3"}
    process = BrokerProcess(tmp_path, settings, port=port)
    process.start()
    yield process
    process.kill()


def is_answered(bootstrap: str, seconds: float = 120.0) -> bool:
    """True if a request of API versions is answered in time."""
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(bytes.fromhex("0000000a0012000000000001ffff"))
        try:
            return bool(connection.recv(4))
        except TimeoutError:
            return False


def test_a_member_keeps_identity_port_and_directory_over_its_lives(member: BrokerProcess) -> None:
    address = member.bootstrap
    lines = member.process.lines
    member.kill()
    member.start()
    identities = re.findall(r"broker (\d+) of cluster (\S+)", "\n".join([*lines, *member.process.lines]))
    assert len(identities) == 2
    assert identities[0] == identities[1]
    assert identities[0][0] == "3"
    assert member.bootstrap == address
    assert is_answered(address)
    assert member.stop() == 0


def test_a_paused_broker_answers_when_it_is_resumed(member: BrokerProcess) -> None:
    member.pause()
    assert not is_answered(member.bootstrap, 1.0)
    member.resume()
    assert is_answered(member.bootstrap)
