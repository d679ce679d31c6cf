"""The site of a broker's HTTP server: health checks, metrics, and the web UI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
from twisted.internet.interfaces import IReactorTime

from pylogbroker.broker.assembly import Broker
from pylogbroker.config import BrokerConfig
from pylogbroker.interfaces.tree import SessionState
from pylogbroker.metrics.collector import BrokerMetrics
from pylogbroker.metrics.exposition import CONTENT_TYPE
from pylogbroker.net.service import KafkaFactory
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.health import STOPPING, Readiness, put_health
from pylogbroker.web.hosted_registry import HostedRegistry
from pylogbroker.web.metrics import Metrics
from pylogbroker.web.pages import PageRoot, compile_pages
from pylogbroker.web.records_api.feeds import Feeds
from pylogbroker.web.sampler import Sampler
from pylogbroker.web.site import AllowedHosts, CheckedSite
from pylogbroker.web.views import Source


@attrs.define(eq=False, repr=False)
class HttpSite:
    """May be made in any thread, which reads and compiles the files of pages."""

    _reactor: IReactorTime
    _config: BrokerConfig
    _sampler: Sampler
    _fault_port: FaultPort | None
    _session: Callable[[], SessionState]
    factory: CheckedSite = attrs.field(init=False)
    _readiness: Readiness = attrs.field(factory=Readiness, init=False)
    _metrics: Metrics = attrs.field(factory=lambda: Metrics(CONTENT_TYPE), init=False)
    _views: Source = attrs.field(init=False)
    _following: Feeds = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = self._config
        self._views = Source(faults=self._fault_port, sampler=self._sampler)
        root = PageRoot(self._views)
        self._following = root.records.feeds
        compile_pages()
        put_health(root, self._readiness)
        root.putChild(b"metrics", self._metrics)
        hosts = AllowedHosts((*config.http_allowed_hosts, *(listener.host for listener in config.http_listeners)))
        self.factory = CheckedSite(
            self._reactor, root, hosts, root.records.serves, error_content=root.records.error_content
        )

    def measure(self, broker: Broker, factories: Sequence[KafkaFactory]) -> None:
        """Serve the metrics of a broker and its listeners."""
        self._metrics.scrape = BrokerMetrics(broker, factories, self._following).scrape

    def host_registry(self, registry: HostedRegistry) -> None:
        """Decode what pages show by the schema registry of this broker."""
        self._views.schemas.host(registry)

    def serve(self, broker: Broker) -> None:
        """Be ready: the start of the broker is over."""
        self._readiness.check = lambda: self._faults(broker)
        self._readiness.stage = ""
        self._views.start(broker)

    def stop_serving(self) -> None:
        self._readiness.stage = STOPPING
        self._metrics.scrape = None
        self._views.stop()

    def _faults(self, broker: Broker) -> Iterator[str]:
        session = self._session()
        if session is SessionState.SUSPENDED:
            yield "the coordination tree cannot be reached"
        if session is SessionState.EXPIRED:
            yield "the session in the coordination tree has expired"
        for directory in broker.logs.directories:
            if directory.failure:
                yield f"the log directory {directory.path} is offline"
        for path, reason in broker.partitions.full_directories.reasons.items():
            yield f"the log directory {path} is full: {reason}"
