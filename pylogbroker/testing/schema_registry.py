"""Schema registry of a test broker: reads `_schemas`, and listens on a free port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from twisted.internet.defer import maybeDeferred

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.registry.records import TOPIC, SchemaRecord
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.site import registry_site
from pylogbroker.registry.state import RegistryState
from pylogbroker.testing.admin import Admin

_LOOPBACK: Final = "127.0.0.1"


class RegistryService:
    """Runs from `start` to `stop`, on the broker's thread."""

    def __init__(self, reactor: Any, admin: Admin) -> None:
        self._reactor = reactor
        self._admin = admin
        self._port: Any = None

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self._port.getHost().port}"

    async def start(self) -> None:
        """Read the schemas of earlier runs, then listen."""
        await self._create_topic()
        state = RegistryState()
        for record in await self._admin.records(TOPIC, "read_uncommitted"):
            if record.key is not None:
                state.apply(SchemaRecord(record.key, record.value))
        site = registry_site(self._reactor, SchemaRegistry(state, self._append))
        self._port = self._reactor.listenTCP(0, site, interface=_LOOPBACK)

    async def stop(self) -> None:
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        await self._admin.close()

    async def _create_topic(self) -> None:
        try:
            await self._admin.create_topic(TOPIC, 1, -1, {"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _append(self, records: Sequence[SchemaRecord]) -> None:
        for record in records:
            await self._admin.produce(TOPIC, [record.value], record.key, 0, int(self._reactor.seconds() * 1000), ())
