"""The HTTP server in the life of a broker, from before its start to the end of its stop.

http.listeners     the site is made before the addresses are bound: without its files, the start fails
the default        the site is made in a thread once somebody connects; samples of its charts begin with the broker
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import run_in_background
from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.config import BrokerConfig, Endpoint
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import ITree
from pylogbroker.interfaces.tree import SessionEvent, SessionState
from pylogbroker.net.service import KafkaFactory
from pylogbroker.web.connections import HttpFactory
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.service import HttpListeners

if TYPE_CHECKING:
    from pylogbroker.tap import http_site
    from pylogbroker.tap.http_site import HttpSite
    from pylogbroker.web import sampler
    from pylogbroker.web.hosted_registry import HostedRegistry
    from pylogbroker.web.sampler import Sampler
else:
    http_site = on_first_use("pylogbroker.tap.http_site")
    sampler = on_first_use("pylogbroker.web.sampler")

log = Logger()

T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class HttpServer:
    _reactor: Any
    _config: BrokerConfig
    _in_thread: InThread
    _fault_port: FaultPort | None
    _defaults: Sequence[Endpoint]
    """Addresses to try if the setting has none, the best first."""
    _factory: HttpFactory = attrs.field(init=False)
    _listeners: HttpListeners = attrs.field(init=False)
    _sampler: Deferred[Sampler] = attrs.field(factory=Deferred, init=False)
    _site: Deferred[HttpSite] = attrs.field(factory=Deferred, init=False)
    """Not called back while nobody has connected to a default address."""
    _is_site_needed: bool = attrs.field(default=False, init=False)
    _session: SessionState = attrs.field(default=SessionState.CONNECTED, init=False)

    def __attrs_post_init__(self) -> None:
        self._factory = HttpFactory(self._need_site, self._config.http_max_connections)
        self._listeners = HttpListeners(self._reactor, self._factory, self._config.http_listeners, self._defaults)
        _when_made(self._site, lambda site: self._factory.serve(site.factory))

    @property
    def addresses(self) -> Sequence[Endpoint]:
        return self._listeners.addresses

    def start(self) -> None:
        """Listen; raise CannotListenError."""
        if self._config.http_listeners:
            made = sampler.Sampler()
            self._sampler.callback(made)
            self._site.callback(self._make_site(made))
        else:
            self._reactor.callWhenRunning(self._load_sampler)
        self._listeners.start()

    async def stop(self) -> None:
        await self._listeners.stop()

    def watch(self, tree: ITree) -> None:
        tree.watch_session(self._session_changed)

    def _session_changed(self, event: SessionEvent) -> None:
        self._session = event.state

    def measure(self, broker: Broker, factories: Sequence[KafkaFactory]) -> None:
        """Serve the metrics of a broker and its listeners."""
        _when_made(self._site, lambda site: site.measure(broker, factories))

    def host_registry(self, registry: HostedRegistry) -> None:
        """Decode what pages show by the schema registry of this broker."""
        _when_made(self._site, lambda site: site.host_registry(registry))

    def serve(self, broker: Broker) -> None:
        """Be ready: the start of the broker is over."""
        _when_made(self._sampler, lambda made: made.start(broker))
        _when_made(self._site, lambda site: site.serve(broker))

    async def stop_serving(self) -> None:
        _when_made(self._sampler, lambda made: made.stop())
        _when_made(self._site, lambda site: site.stop_serving())

    def _load_sampler(self) -> None:
        self._in_thread(lambda: sampler.Sampler()).addCallbacks(self._sampler.callback, self._not_loaded)

    def _need_site(self) -> None:
        if not self._is_site_needed:
            self._is_site_needed = True
            _when_made(self._sampler, self._load_site)

    def _load_site(self, made: Sampler) -> None:
        self._in_thread(self._make_site, made).addCallbacks(self._site.callback, self._not_loaded)

    def _make_site(self, made: Sampler) -> HttpSite:
        return http_site.HttpSite(self._reactor, self._config, made, self._fault_port, lambda: self._session)

    def _not_loaded(self, reason: Failure) -> None:
        log.failure("the web UI cannot be loaded, and is not served", reason)
        run_in_background(log, self._listeners.stop(), "the web UI's addresses cannot be closed")


def _when_made(late: Deferred[T], use: Callable[[T], None]) -> None:
    """Call `use` with the result, and leave it to the calls that follow."""

    def used(result: T) -> T:
        use(result)
        return result

    late.addCallback(used)
