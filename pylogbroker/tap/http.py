"""The HTTP server of a broker: health checks from before its start to the end of its stop, and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from twisted.logger import Logger

from pylogbroker.broker.assembly import Broker
from pylogbroker.config import BrokerConfig, Endpoint
from pylogbroker.interfaces import ITree
from pylogbroker.interfaces.tree import SessionEvent, SessionState
from pylogbroker.metrics.collector import BrokerMetrics
from pylogbroker.metrics.exposition import CONTENT_TYPE
from pylogbroker.net.service import KafkaFactory
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.health import STOPPING, Readiness, put_health
from pylogbroker.web.metrics import Metrics
from pylogbroker.web.pages import PageRoot, compile_pages
from pylogbroker.web.service import HttpListeners
from pylogbroker.web.views import Source

log = Logger()


@attrs.define(eq=False)
class HttpServer:
    _reactor: Any
    _config: BrokerConfig
    _fault_port: FaultPort | None = None
    _defaults: Sequence[Endpoint] = ()
    _readiness: Readiness = attrs.field(factory=Readiness, init=False)
    _root: PageRoot = attrs.field(init=False)
    _metrics: Metrics = attrs.field(factory=lambda: Metrics(CONTENT_TYPE), init=False)
    _views: Source = attrs.field(init=False)
    _listeners: HttpListeners = attrs.field(init=False)
    _session: SessionState = attrs.field(default=SessionState.CONNECTED, init=False)

    def __attrs_post_init__(self) -> None:
        self._views = Source(faults=self._fault_port)
        self._root = PageRoot(self._views)
        if not self._defaults:  # without its files, the start must fail
            compile_pages()
        put_health(self._root, self._readiness)
        self._root.putChild(b"metrics", self._metrics)
        self._listeners = HttpListeners(self._reactor, self._config, self._root, self._defaults)

    @property
    def addresses(self) -> Sequence[Endpoint]:
        return self._listeners.addresses

    def start(self) -> None:
        """Listen; raise CannotListenError."""
        self._listeners.start()

    async def stop(self) -> None:
        await self._listeners.stop()

    def watch(self, tree: ITree) -> None:
        tree.watch_session(self._session_changed)

    def _session_changed(self, event: SessionEvent) -> None:
        self._session = event.state

    def measure(self, broker: Broker, factories: Sequence[KafkaFactory]) -> None:
        """Serve the metrics of a broker and its listeners."""
        self._metrics.scrape = BrokerMetrics(broker, factories).scrape

    def serve(self, broker: Broker) -> None:
        """Be ready: the start of the broker is over."""
        self._readiness.check = lambda: self._faults(broker)
        self._readiness.stage = ""
        self._views.start(broker)
        if self._defaults:  # nobody has asked for the pages yet: the broker's start does not wait for them
            compiled = broker.runtime.in_thread(compile_pages)
            compiled.addErrback(lambda failure: log.failure("the web UI's templates cannot be compiled", failure))

    async def stop_serving(self) -> None:
        self._readiness.stage = STOPPING
        self._metrics.scrape = None
        self._views.stop()

    def _faults(self, broker: Broker) -> Iterator[str]:
        if self._session is SessionState.SUSPENDED:
            yield "the coordination tree cannot be reached"
        if self._session is SessionState.EXPIRED:
            yield "the session in the coordination tree has expired"
        for directory in broker.logs.directories:
            if directory.failure:
                yield f"the log directory {directory.path} is offline"
        for path, reason in broker.partitions.full_directories.reasons.items():
            yield f"the log directory {path} is full: {reason}"
