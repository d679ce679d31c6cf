"""Errors of a broker's process, as the test's process raises them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pylogbroker.client.sync.background import TimedOut
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, StartupError
from pylogbroker.testing.clock import NotSettled
from pylogbroker.testing.control.client import ControlClient
from pylogbroker.testing.control.commands import Commands
from pylogbroker.testing.control.remote import RemoteClock
from pylogbroker.testing.control.site import control_site
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import FaultNotFired
from pylogbroker.testing.reactor_thread import ReactorThread


class FailingCommands:
    """Commands of a broker whose clock cannot be moved."""

    error: Exception

    @property
    def broker(self) -> Any:
        raise self.error


@pytest.fixture
def failing() -> Iterator[tuple[FailingCommands, ControlClient]]:
    commands, thread = FailingCommands(), ReactorThread()
    thread.start()

    async def listen() -> Any:
        return thread.reactor.listenTCP(
            0, control_site(thread.reactor, cast(Commands, commands)), interface="127.0.0.1"
        )

    port = thread.call(listen, "listening")
    yield commands, ControlClient(f"http://127.0.0.1:{port.getHost().port}")
    thread.stop()


def test_errors_keep_their_types(failing: tuple[FailingCommands, ControlClient]) -> None:
    commands, client = failing
    clock = RemoteClock()
    clock.attach(client)
    for kind in (ConfigError, FaultNotFired, NotRunning, NotSettled, StartupError, TimedOut, TypeError, ValueError):
        commands.error = kind("the reason")
        with pytest.raises(Exception, match="the reason") as raised:
            clock.advance("1h")
        assert (type(raised.value), str(raised.value)) == (kind, "the reason")
    commands.error = KafkaError("the reason", ErrorCode.NOT_CONTROLLER)
    with pytest.raises(KafkaError, match="the reason") as failed:
        clock.advance("1h")
    assert failed.value.code is ErrorCode.NOT_CONTROLLER


def test_the_time_has_moved_also_if_the_brokers_do_not_settle(
    failing: tuple[FailingCommands, ControlClient],
) -> None:
    commands, client = failing
    clock = RemoteClock()
    clock.attach(client)
    commands.error = ValueError("wrong")
    with pytest.raises(ValueError, match="wrong"):
        clock.advance("2h")
    commands.error = NotSettled("busy")
    with pytest.raises(NotSettled):
        clock.advance("1h")
    moved: list[dict[str, float]] = []
    clock.attach(cast(ControlClient, SimpleNamespace(post=lambda path, **fields: moved.append(fields))))
    assert moved == [{"duration": 3600.0}]
