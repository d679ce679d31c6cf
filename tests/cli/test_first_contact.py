"""Errors of commands that reach a broker for the first time, or the wrong one: they name the cause and the cure."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main, topic
from tests.peers.processes import free_ports
from tests.support.brokers import Broker


def run(broker: Broker, *arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap], input=given)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_advertised_address_that_nobody_reaches_is_named(new_broker: Callable[..., Broker], host: str) -> None:
    [port] = free_ports(1)
    broker = new_broker({"advertised.listeners": f"PLAINTEXT://{host}:{port}"})
    broker.start()
    created = run(broker, "topic", "create", "t")
    assert created.exit_code == 1
    assert f"cannot connect to {host}:{port}: " in created.stderr
    assert "the cluster says that this is the address of broker" in created.stderr
    assert "set the broker's advertised.listeners" in created.stderr


def test_a_broker_that_is_away_for_longer_is_waited_for_with_a_note(
    new_broker: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker dies between two requests of one command."""
    broker = new_broker()
    broker.start()
    monkeypatch.setattr(topic, "_CREATED_TOGETHER", 2)
    create = topic.admin_api.NewTopic

    def new_topic(name: str, *rest: object, **others: object) -> object:
        if name == "last":
            broker.kill()
        return create(name, *rest, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(topic.admin_api, "NewTopic", new_topic)
    done = run(broker, "topic", "create", *"abcde", "last", "--if-not-exists", "--timeout", "4")
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert ": trying again for up to " in lines[0]
    assert lines[-1] == "Error: 6 of 6 topics were not created; some of the last 2 may have been, as no answer came"


def test_a_server_of_another_protocol_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = ["-X", "socket.connection.setup.timeout.ms=100"]
        done = CliRunner().invoke(main, ["topic", "list", "-b", f"127.0.0.1:{port}", *settings])
    assert done.exit_code == 1
    assert "it accepts connections, but hangs, or is no broker's listener" in done.stderr
    assert "is one running there" not in done.stderr
