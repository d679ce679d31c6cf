"""Limits of the number of connections change at run time: those that exist stay, and the next ones are counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from pylogbroker.wire import response_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.net.test_hostile_peers import Peer
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

BROKER = 4  # type of the resource
SET, DELETE = 0, 1
TRIED_MAX = 12


def is_accepted(peer: Peer) -> bool:
    try:
        return bool(peer.ask(ApiVersionsRequest(), 0))
    except (EOFError, ConnectionResetError):
        return False


@attrs.define
class Clients:
    """Connections of one address; the administrator has one of them."""

    process: BrokerProcess
    administrator: Peer
    accepted: list[Peer] = attrs.field(factory=list)

    def alter(self, **values: str | None) -> None:
        """Change settings of all brokers; None deletes."""
        settings = [
            AlterableConfig(name.replace("_", "."), DELETE if value is None else SET, value)
            for name, value in values.items()
        ]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "", settings)])
        answer = memoryview(self.administrator.ask(request, 0))
        [changed] = response_codec(request.api_key, 0).decode(answer, 4).responses
        assert (changed.error_code, changed.error_message) == (0, None)

    def expect(self, most: int) -> None:
        """Connect until the broker rejects connections; it has `most` then, once it knows of those that left."""
        wait_until(lambda: self._connect() >= most, what=lambda: len(self.accepted))
        assert self._connect() == most

    def _connect(self) -> int:
        for _ in range(TRIED_MAX):
            peer = Peer(self.process)
            if not is_accepted(peer):
                peer.socket.close()
                break
            self.accepted.append(peer)
        assert all(map(is_accepted, (self.administrator, *self.accepted))), "one that was accepted is closed"
        return 1 + len(self.accepted)

    def leave(self, left: int) -> None:
        while len(self.accepted) >= left:
            self.accepted.pop().socket.close()


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    process = BrokerProcess(tmp_path)
    process.start()
    with ExitStack() as stack:
        found = Clients(process, Peer(process))
        stack.callback(lambda: [peer.socket.close() for peer in (found.administrator, *found.accepted)])
        yield found
    assert process.stop() == 0
    assert process.unexpected_errors() == []


def test_limits_change_at_run_time(clients: Clients) -> None:
    clients.alter(max_connections_per_ip="6")
    clients.expect(6)
    clients.alter(max_connections_per_ip="4")
    clients.expect(6)
    clients.leave(2)
    clients.expect(4)
    clients.alter(max_connections_per_ip_overrides="127.0.0.1:5")
    clients.expect(5)
    clients.alter(max_connections="7", max_connections_per_ip=None, max_connections_per_ip_overrides=None)
    clients.expect(7)
