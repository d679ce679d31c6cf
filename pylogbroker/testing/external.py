"""A Kafka that runs elsewhere, asked as a test's own broker is."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.testing.requests import BrokerRequests


class NotSupported(Exception):
    """A test needs a broker of its own for this."""


class ExternalBroker(BrokerRequests):
    """Apache Kafka, or another broker, at an address. It has no faults and no clock, and is not stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    def __enter__(self) -> Self:
        thread = ReactorThread()
        thread.start()
        self._stack.callback(thread.stop)
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._stack:
            self._end_requests()

    @property
    def faults(self) -> Any:
        raise NotSupported(f"the broker at {self._bootstrap} has no faults")

    @property
    def schema_registry(self) -> Any:
        raise NotSupported(f"the schema registry of the broker at {self._bootstrap} is not known")

    @property
    def clock(self) -> Any:
        raise NotSupported(f"the time of the broker at {self._bootstrap} cannot be moved")
