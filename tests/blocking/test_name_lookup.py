"""Addresses of hosts, where the system's resolver is slow or finds none."""

from __future__ import annotations

import socket
from threading import Event
from typing import Any

import pytest

from pylogbroker.blocking import name_lookup
from pylogbroker.rpc.settings import Address


def test_addresses_of_this_machine() -> None:
    assert ("127.0.0.1", 9092) in name_lookup.looked_up(Address("localhost", 9092), 60.0)


def test_numbers_need_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    for host in ("127.0.0.1", "::1"):
        assert name_lookup.looked_up(Address(host, 9092), 0.0) == [(host, 9092)]


def test_name_servers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()

    def slow(*_: Any, **__: Any) -> Any:
        ended.wait(60)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with pytest.raises(TimeoutError, match=r"no name server has answered for kafka1 within 0\.01 s: is the name right"):
        name_lookup.looked_up(Address("kafka1", 9092), 0.01)
    ended.set()


def test_errors_of_the_resolver_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", failing)
    with pytest.raises(socket.gaierror, match="not known"):
        name_lookup.looked_up(Address("kafka1", 9092), 60.0)
    monkeypatch.undo()
    with pytest.raises(UnicodeError):
        name_lookup.looked_up(Address("x" * 64, 9092), 60.0)
