"""A broker in a process of its own that speaks 0.7's protocol beside Kafka's."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess


class SimpleBroker(BrokerProcess):
    """The process, with `address` for clients of 0.7."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        small = {"message.max.bytes": "200000", "log.segment.bytes": "1000000"}
        super().__init__(directory, {**small, **(settings or {})})
        self._simple_port = 0

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._simple_port

    def start(self) -> None:
        super().start()
        self._simple_port = int(self.process.expect(r"listening on SIMPLE://127\.0\.0\.1:([1-9]\d*)")[1])

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=120)

    def _command(self) -> list[str | Path]:
        return [*super()._command(), f"--listener=SIMPLE://127.0.0.1:{self._simple_port}"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleBroker]:
    """A broker for all tests of a module; each uses topics of its own."""
    broker = SimpleBroker(tmp_path_factory.mktemp("simple"))
    broker.start()
    try:
        yield broker
        assert broker.unexpected_errors() == []
    finally:
        broker.kill()
