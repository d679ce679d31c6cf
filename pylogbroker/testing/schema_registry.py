"""Schema registry of a test broker: keeps `_schemas` by a client of the broker, and listens on a free port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.web.server import Request, Site

from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.registry.callers import OPEN
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.log import StoredRecords
from pylogbroker.registry.records import TOPIC, SchemaRecord
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.site import RegistryAnswer, RegistryApi, RegistryRequest, RegistryResource
from pylogbroker.testing.admin import Admin

_LOOPBACK: Final = "127.0.0.1"


@attrs.define(eq=False, repr=False)
class _ClientLog:
    """Log that only this registry writes: what it has appended is read from memory."""

    _reactor: Any
    _admin: Admin
    _unread: list[SchemaRecord] = attrs.field(factory=list, init=False)

    async def open(self) -> None:
        """Create the topic, or read the schemas of earlier runs."""
        try:
            await self._admin.create_topic(TOPIC, 1, -1, {"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        stored = await self._admin.records(TOPIC, "read_uncommitted")
        self._unread = [SchemaRecord(record.key, record.value) for record in stored if record.key is not None]

    async def read(self, offset: int) -> StoredRecords:
        records, self._unread = self._unread, []
        next_offset = offset + len(records)
        return StoredRecords(list(enumerate(records, offset)), next_offset, is_end=True)

    async def append(self, records: Sequence[SchemaRecord]) -> None:
        for record in records:
            now_ms = int(self._reactor.seconds() * 1000)
            try:
                await self._admin.produce(TOPIC, [record.value], record.key, 0, now_ms, ())
            except PylogbrokerError as error:
                raise RegistryError.backend_failed(error) from error
            self._unread.append(record)


class BrokerRegistry:
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
        log = _ClientLog(self._reactor, self._admin)
        await log.open()
        registry = SchemaRegistry(log, self._in_thread, Slices(self._reactor).run)
        await registry.catch_up()
        site = Site(RegistryResource(_respond(RegistryApi(registry, self._admin.cluster_id))), reactor=self._reactor)
        site.noisy = False
        self._port = self._reactor.listenTCP(0, site, interface=_LOOPBACK)

    async def stop(self) -> None:
        if self._port is not None:
            await maybeDeferred(self._port.stopListening)
        await self._admin.close()

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *arguments)


def _respond(api: RegistryApi) -> Callable[[RegistryRequest, Request], Awaitable[RegistryAnswer]]:
    async def respond(request: RegistryRequest, http: Request) -> RegistryAnswer:
        return await api.answer(request, OPEN)

    return respond
