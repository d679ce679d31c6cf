"""The admin client over blocking connections, where brokers fail: sockets of these tests are real, brokers are not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any, cast

import pytest

from pylogbroker.blocking import admin as blocking_admin
from pylogbroker.blocking import listener_probe
from pylogbroker.blocking.admin import BlockingAdmin, BlockingWaits
from pylogbroker.blocking.listener_probe import SeenListener
from pylogbroker.client.errors import ConnectionLost, NeverReached, RequestTimedOut, is_retriable
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.settings import Address


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Listen, and answer nothing: the system accepts connections by itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def settings(server: socket.socket, **others: str) -> dict[str, str]:
    host, port = server.getsockname()
    return {"bootstrap.servers": f"{host}:{port}", **{name.replace("_", "."): text for name, text in others.items()}}


def finished(waits: BlockingWaits, failures: list[Exception]) -> str:
    """Return the result of work that fails with each of the errors, and then does not."""

    async def work() -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    with pytest.raises(StopIteration) as ended:
        next(waits.retrying(work, is_retriable).__await__())
    result: str = ended.value.value
    return result


def test_retriable_errors_are_retried() -> None:
    waits = BlockingWaits(Backoff.fixed(0.0), 60.0)
    assert finished(waits, [RequestTimedOut("late"), KafkaError("moved", ErrorCode.NOT_CONTROLLER)]) == "done"


def test_other_errors_are_raised_at_once() -> None:
    waits = BlockingWaits(Backoff.fixed(0.0), 60.0)
    with pytest.raises(ConfigError, match="wrong"):
        finished(waits, [ConfigError("wrong"), ConfigError("not reached")])


def test_the_last_error_is_raised_at_the_end_of_the_time() -> None:
    waits = BlockingWaits(Backoff.fixed(60.0), 0.0)
    with pytest.raises(RequestTimedOut, match="first"):
        finished(waits, [RequestTimedOut("first"), RequestTimedOut("second")])


def test_errors_of_attempts_are_reported_after_a_moment_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    late = [RequestTimedOut("late")] * 3
    assert finished(BlockingWaits(Backoff.fixed(0.0), 60.0, reported.append), [*late]) == "done"
    assert reported == []
    monkeypatch.setattr(blocking_admin, "_QUIET_SECONDS", 0.0)
    assert finished(BlockingWaits(Backoff.fixed(0.0), 60.0, reported.append), [*late]) == "done"
    assert reported == ["late: trying again for up to 60 s"]


def test_inner_limits_do_not_outlast_outer_ones() -> None:
    waits = BlockingWaits(Backoff.fixed(0.0), 60.0)
    with waits.within(10.0) as outer:
        with waits.within(1000.0) as inner:
            assert inner == outer
        with waits.within(1.0) as inner:
            assert inner < outer
            assert waits.seconds_left <= 1.0
        assert waits.seconds_left > 1.0


def test_a_broker_that_does_not_answer_ends_the_call(listening: socket.socket) -> None:
    limits = settings(listening, default_api_timeout_ms="60000", bootstrap_connect_max_ms="-1")
    with BlockingAdmin(limits, 0.2) as admin, pytest.raises(Exception, match="in time") as failed:
        admin.topics.list()
    assert is_retriable(failed.value)


def test_brokers_that_were_never_there_are_named(listening: socket.socket) -> None:
    host, port = listening.getsockname()
    listening.close()
    address = {"bootstrap.servers": f"{host}:{port}", "bootstrap.connect.max.ms": "0"}
    with BlockingAdmin(address, 60.0) as admin, pytest.raises(NeverReached, match=f"{host}:{port}"):
        admin.topics.list()


def test_addresses_are_required() -> None:
    with pytest.raises(ConfigError, match="no brokers are given"), BlockingAdmin({"bootstrap.servers": " "}, 1.0):
        pass


def test_a_first_broker_that_hangs_is_tried_once(listening: socket.socket) -> None:
    """The time for the first contact is over when the first attempt fails."""
    limits = settings(listening, bootstrap_connect_max_ms="50", socket_connection_setup_timeout_ms="100")
    with BlockingAdmin(limits, 60.0) as admin, pytest.raises(NeverReached, match=r"accepts connections, but hangs"):
        admin.topics.list()
    listening.setblocking(False)
    listening.accept()[0].close()
    with pytest.raises(BlockingIOError):
        listening.accept()


def test_a_web_server_is_named(listening: socket.socket) -> None:
    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = Thread(target=answer)
    server.start()
    with (
        BlockingAdmin(settings(listening, bootstrap_connect_max_ms="0"), 60.0) as admin,
        pytest.raises(NeverReached, match=r"it is HTTP: name the port of a broker's listener"),
    ):
        admin.topics.list()
    server.join(60)


class _LostConnection:
    """A connection that the broker closes at the first request after ApiVersions."""

    is_open = True

    def __init__(self, address: Address) -> None:
        self.address = address

    def ask(self, request: object, **_: object) -> object:
        raise ConnectionLost("closed; does this listener have SASL?")

    def close(self) -> None:
        pass


def test_a_listener_that_closes_at_the_first_request_is_not_tried_for_the_whole_time(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BlockingAdmin(settings(listening, bootstrap_connect_max_ms="0"), 60.0) as admin:
        address = Address(*listening.getsockname())
        admin._nodes._connections[address] = cast(Any, _LostConnection(address))
        monkeypatch.setattr(listener_probe, "probe", lambda _: SeenListener(False, ("PLAIN",)))
        with pytest.raises(NeverReached, match=r"is SASL_PLAINTEXT with PLAIN, but security"):
            admin.topics.list()
