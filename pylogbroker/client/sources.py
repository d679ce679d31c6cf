"""Sources of bootstrap brokers.

    StaticBrokers("one:9092,two:9092")
    TreeBrokers(tree)                       # watches changes to brokers and topics

Brokers themselves send all further addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from pylogbroker.client.errors import NoBrokers
from pylogbroker.config.listeners import PLAINTEXT
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import Changed, ITree, NoNode, SessionEvent, SessionState, Watch
from pylogbroker.metadata import zk_paths
from pylogbroker.rpc.settings import Address, parse_address

if TYPE_CHECKING:
    from pylogbroker.metadata import zk_schema
else:
    zk_schema = on_first_use("pylogbroker.metadata.zk_schema")

log = Logger()


class BrokerSource(Protocol):
    async def addresses(self) -> list[Address]:
        """Return addresses, possibly outdated."""

    def watch(self, callback: Callable[[], object]) -> None:
        """Call back after detected changes."""

    def close(self) -> None: ...


class StaticBrokers:
    """Brokers as `host:port`, comma-separated or iterable."""

    def __init__(self, bootstrap: str | Iterable[str]) -> None:
        texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
        texts = list(texts) if isinstance(texts, Iterable) else [texts]
        if isinstance(bootstrap, Mapping) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"bootstrap.servers: {bootstrap!r} is not accepted; expected host:port, or a list")
        self._addresses = [parse_address(text) for text in texts if text.strip()]
        if not self._addresses:
            raise ConfigError("bootstrap.servers: no brokers are given; expected host:port, separated by commas")

    def __str__(self) -> str:
        return ",".join(map(str, self._addresses))

    async def addresses(self) -> list[Address]:
        return self._addresses

    def watch(self, callback: Callable[[], object]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class TreeBrokers:
    """Live brokers in the coordination tree, which the caller closes."""

    def __init__(self, tree: ITree, protocol: str = PLAINTEXT) -> None:
        self._tree = tree
        self._protocol = protocol
        self._callback: Callable[[], object] | None = None
        self._session_id = 0
        self._unwatched: dict[str, None] = {}

    def __str__(self) -> str:
        return "a coordination tree"

    async def addresses(self) -> list[Address]:
        """Return an address for each broker with a valid node; raise NoBrokers if the tree is not a cluster's."""
        endpoints = []
        try:
            nodes = await self._tree.children_with_data(zk_paths.BROKER_IDS)
        except NoNode:
            raise NoBrokers(
                f"the coordination tree has no node {zk_paths.BROKER_IDS}: check the path in zookeeper.connect"
            ) from None
        for name, node in nodes.items():
            try:
                address = _address(node.data, self._protocol)
            except zk_schema.BadNode as error:
                log.warn("skipped broker {name} of the coordination tree: {error}", name=name, error=error)
                continue
            if address is not None:
                endpoints.append(address)
        return endpoints

    def watch(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._session_id = self._tree.session_id
        self._tree.watch_session(self._session_changed)
        self._arm_all()

    def close(self) -> None:
        self._callback = None

    def _changed(self, change: Changed) -> None:
        if self._callback is not None:
            self._arm(change.path)
            self._callback()

    def _session_changed(self, event: SessionEvent) -> None:
        if self._callback is not None and event.session_id != self._session_id:
            self._session_id = event.session_id
            self._arm_all()  # the watches ended with the session
            self._callback()
        elif self._callback is not None and event.state is SessionState.CONNECTED and self._unwatched:
            for path in tuple(self._unwatched):  # the connection was lost before the watches were set
                self._arm(path)
            self._callback()

    def _arm_all(self) -> None:
        for path in (zk_paths.BROKER_IDS, zk_paths.TOPICS):
            self._arm(path)

    def _arm(self, path: str) -> None:
        self._unwatched.pop(path, None)
        ensureDeferred(self._watch_children(path, self._changed)).addErrback(self._not_armed, path)

    async def _watch_children(self, path: str, watch: Watch) -> None:
        await self._tree.children(path, watch)

    def _not_armed(self, failure: object, path: str) -> None:
        self._unwatched[path] = None
        if self._callback is not None:
            log.warn("{path} of the coordination tree cannot be watched: {failure}", path=path, failure=failure)


def _address(data: bytes | None, protocol: str) -> Address | None:
    broker = zk_schema.decode_broker(data)
    for name, host, port in map(zk_schema.parse_endpoint, broker.endpoints):
        if broker.protocols.get(name, name) == protocol:
            return Address(host, port)
    if protocol == PLAINTEXT and broker.host and broker.port > 0:
        return Address(broker.host, broker.port)
    return None
