"""Ports of servers: a worker's are no other's."""

from __future__ import annotations

import pytest

from tests.peers.processes import own_ports

PORTS = range(15_000, 32_768)


@pytest.mark.parametrize("count", [1, 2, 4, 64])
def test_workers_have_ports_of_their_own(count: int) -> None:
    workers = [
        {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(count)} for number in range(count)
    ]
    parts = [own_ports(PORTS, environment) for environment in ({}, *workers)]
    assert all(len(part) >= 200 for part in parts)
    assert len({port for part in parts for port in part}) == sum(map(len, parts))
    assert {port for part in parts for port in part} <= set(PORTS)
