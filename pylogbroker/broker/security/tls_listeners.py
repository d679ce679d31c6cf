"""TLS of a broker's listeners, by name.

The libraries of TLS are imported only if a listener has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pylogbroker.broker.runtime import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.security.tls.engine import TlsEngine

if TYPE_CHECKING:
    from pylogbroker.broker.security.listener_tls import ListenerTls


def check_tls(config: BrokerConfig) -> None:
    """Read the stores of all listeners; raise ConfigError if a start would fail. Blocks."""
    _load_all(config)


def _load_all(config: BrokerConfig) -> dict[str, ListenerTls]:
    with_tls = [listener for listener in config.listeners if listener.security.has_tls]
    if not with_tls:
        return {}
    from pylogbroker.broker.security.listener_tls import ListenerTls

    return {listener.name: ListenerTls.load(config, listener) for listener in with_tls}


@attrs.define(eq=False)
class TlsListeners:
    _config: BrokerConfig
    _runtime: Runtime
    _loaded: dict[str, ListenerTls] = attrs.field(factory=dict, init=False)

    async def open(self) -> None:
        """Read the stores; raise ConfigError."""
        if any(listener.security.has_tls for listener in self._config.listeners):
            self._loaded = await self._runtime.in_thread(_load_all, self._config)

    def __getitem__(self, listener: str) -> ListenerTls:
        """Return the present state of a listener with TLS."""
        return self._loaded[listener]

    def engine_to(self, host: str) -> TlsEngine:
        """Return the engine of a connection to another broker, on the listener that brokers use."""
        client = self._loaded[self._config.inter_broker_listener.name].client
        assert client is not None
        return client.engine(host)
