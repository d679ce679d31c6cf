"""A Kafka that runs elsewhere, asked as a test's own broker is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from unittest import SkipTest

from pylogbroker.client import arguments
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.features import on_first_use
from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.testing.requests import CLIENT_ID, BrokerRequests

if TYPE_CHECKING:
    from pylogbroker.testing import admin as testing_admin
    from pylogbroker.testing.admin import Admin
else:
    testing_admin = on_first_use("pylogbroker.testing.admin")


class NotSupported(SkipTest):
    """A test needs a broker of its own for this; pytest and unittest skip it."""


class ExternalBroker(BrokerRequests):
    """Apache Kafka, or another broker, at an address. It has no faults and no clock, and is not stopped.

    `settings` are those of its clients, with librdkafka's names: `security.protocol`, `sasl.username` and others.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._bootstrap = str(StaticBrokers(arguments.name("bootstrap", bootstrap)))
        self._settings = {} if settings is None else arguments.texts_by_name("settings", settings)
        read(CONSUMER, self._settings)
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    def __enter__(self) -> Self:
        """Reach the Kafka; raise NeverReached if it cannot be reached for two seconds."""
        thread = ReactorThread()
        thread.start()
        with ExitStack() as started:
            started.callback(thread.stop)
            self._thread = thread
            started.callback(self._end_requests)
            self._ask(lambda admin: admin.topics(), f"a connection to {self._bootstrap}")
            self._stack = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def client_settings(self) -> dict[str, str]:
        return super().client_settings() | self._settings

    def _new_admin(self, reactor: Any) -> Admin:
        return testing_admin.Admin(
            reactor, self.bootstrap, {"client.id": CLIENT_ID, "bootstrap.connect.max.ms": "2000", **self._settings}
        )

    @property
    def requests(self) -> Any:
        raise NotSupported(f"the requests to the broker at {self._bootstrap} are not known")

    @property
    def faults(self) -> Any:
        raise NotSupported(f"the broker at {self._bootstrap} has no faults")

    @property
    def schema_registry(self) -> Any:
        raise NotSupported(f"the schema registry of the broker at {self._bootstrap} is not known")

    @property
    def clock(self) -> Any:
        raise NotSupported(f"the time of the broker at {self._bootstrap} cannot be moved")
