"""A broker as one test sees it: names, clients, and nothing of the test left behind."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.testing.clients import Clients
from pylogbroker.testing.external import ExternalBroker, NotSupported
from pylogbroker.testing.requests import BrokerRequests

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message
    from pylogbroker.testing.admin import KeptNames

_NAME_LENGTH_MAX: Final = 60


class LeftBehind(UserWarning):
    """A test left something that the broker keeps: an open transaction, or a group with members."""


class Kafka:
    """A broker for one test. At its end the clients made here are closed, and new topics and groups deleted."""

    def __init__(self, broker: BrokerRequests, name: str, clients: Clients) -> None:
        self.broker: Any = broker
        words = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_NAME_LENGTH_MAX]
        self._stem = f"{words}-{uuid4().hex[:8]}"  # others may test on the same Kafka
        self._clients = clients
        self._numbers = itertools.count(1)
        self._stack = ExitStack()
        self._before: KeptNames | None = None

    def __enter__(self) -> Self:
        self._before = self.broker.inventory()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with ExitStack() as stack:  # all of it, whatever fails; the last step first
            stack.callback(self._delete_new)
            stack.callback(self._stack.close)
            if not isinstance(self.broker, ExternalBroker):
                stack.callback(self.broker.faults.clear)  # raises FaultNotFired
                stack.callback(self.broker.up)  # with the next test in mind

    def _delete_new(self) -> None:
        before, now = self._before, self.broker.inventory()
        if before is None:
            return
        for transactional_id in self._own(now.open_transactions, before.open_transactions):
            warnings.warn(LeftBehind(f"transaction {transactional_id} is open after the test"), stacklevel=2)
        for group in self._own(now.groups, before.groups):
            self._delete_group(group)
        self.broker.delete_topic(*self._own(now.topics, before.topics))

    @property
    def bootstrap(self) -> str:
        return str(self.broker.bootstrap)

    @property
    def clock(self) -> Any:
        """Clock of the broker; an external Kafka has none, which skips the test."""
        return self._own_brokers("clock")

    @property
    def faults(self) -> Any:
        """Faults of the broker; an external Kafka has none, which skips the test."""
        return self._own_brokers("faults")

    @property
    def requests(self) -> Any:
        """The last requests of clients; those to an external Kafka are not known, which skips the test."""
        return self._own_brokers("requests")

    @property
    def schema_registry(self) -> str:
        """URL of the schema registry; an external Kafka has none, which skips the test."""
        return str(self._own_brokers("schema_registry").url)

    def new_name(self, kind: str = "name") -> str:
        """Return a name that begins with the test's own."""
        return f"{self._stem}-{kind}-{next(self._numbers)}"

    def topic(self, name: str | None = None, partitions: int = 1, **settings: Any) -> str:
        """Create a topic for this test alone, and return its name: without one a new name."""
        chosen = self.new_name("topic") if name is None else name
        return str(self.broker.create_topic(chosen, partitions, **settings))

    def produce(self, topic: str, *values: bytes | str | None, **options: Any) -> list[int]:
        """Append records, as `Broker.produce` does."""
        offsets: list[int] = self.broker.produce(topic, *values, **options)
        return offsets

    def records(self, topic: str, **options: Any) -> list[Message]:
        """Return a topic's records, as `Broker.records` does."""
        messages: list[Message] = self.broker.records(topic, **options)
        return messages

    def producer(self, *, user: str | None = None, **settings: Any) -> Any:
        """Return a new producer of the chosen library, for a user of the broker: by default the first."""
        return self._client(*self._clients.producer(self._client_settings(user, settings)))

    def consumer(self, *topics: str, group: str | None = None, user: str | None = None, **settings: Any) -> Any:
        """Return a new consumer of these topics, from their beginning, for a user of the broker."""
        client_settings = self._client_settings(user, settings)
        return self._client(*self._clients.consumer(topics, group or self.new_name("group"), client_settings))

    def _own_brokers(self, attribute: str) -> Any:
        try:
            return getattr(self.broker, attribute)
        except NotSupported as error:
            pytest.skip(str(error))

    def _client(self, client: Any, close: Any) -> Any:
        self._stack.callback(close)
        return client

    def _client_settings(self, user: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        if user is None:
            return {**self.broker.client_settings(), **named}
        if isinstance(self.broker, ExternalBroker):
            pytest.skip(f"the users of the Kafka at {self.bootstrap} are not known")
        return {**self.broker.client_settings(user), **named}

    def _own(self, names: Collection[str], before: Collection[str]) -> list[str]:
        """Return what the test made: all that is new, but on an external Kafka only names of `new_name`."""
        new = [name for name in names if name not in before]
        is_shared = isinstance(self.broker, ExternalBroker)
        return [name for name in new if name.startswith(f"{self._stem}-")] if is_shared else new

    def _delete_group(self, group: str) -> None:
        try:
            self.broker.delete_group(group)
        except KafkaError as error:
            if error.code is not ErrorCode.NON_EMPTY_GROUP:
                raise
            warnings.warn(LeftBehind(f"group {group} has members after the test"), stacklevel=3)
