"""TLS of a broker's listeners, by name.

The libraries of TLS are imported only if a listener has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.config.listeners import LISTENER_PREFIX
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.security.tls.engine import TlsEngine

if TYPE_CHECKING:
    from pylogbroker.broker.security import listener_tls
    from pylogbroker.broker.security.listener_tls import ListenerTls
else:
    listener_tls = on_first_use("pylogbroker.broker.security.listener_tls")

log = Logger()


def check_tls(config: BrokerConfig) -> None:
    """Read the stores of all listeners; raise ConfigError if a start would fail. Blocks."""
    _load_all(config)


def _load_all(config: BrokerConfig) -> dict[str, ListenerTls]:
    with_tls = [listener for listener in config.listeners if listener.security.has_tls]
    if not with_tls:
        return {}
    return {listener.name: listener_tls.ListenerTls.load(config, listener) for listener in with_tls}


def _load(config: BrokerConfig, name: str) -> ListenerTls:
    return listener_tls.ListenerTls.load(
        config, next(listener for listener in config.listeners if listener.name == name)
    )


def _outdated(loaded: Mapping[str, ListenerTls]) -> list[str]:
    return [name for name, tls in loaded.items() if tls.is_outdated]


@attrs.define(eq=False, repr=False)
class TlsListeners:
    """The present TLS of each listener; new connections get it.

    It is read again when a file or a setting has changed. If that fails, the former one stays in use.
    """

    _config: BrokerConfig
    _runtime: Runtime
    _loaded: dict[str, ListenerTls] = attrs.field(factory=dict, init=False)
    _file_check: PeriodicCall | None = attrs.field(default=None, init=False)
    changes: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    """Held while a change of the broker's settings is checked and stored."""

    async def open(self) -> None:
        """Read the stores, and watch them from now on; raise ConfigError."""
        if not any(listener.security.has_tls for listener in self._config.listeners):
            return
        self._loaded = await self._runtime.in_thread(_load_all, self._config)
        self._config.observe(self._settings_changed)
        interval = self._config.ssl_store_check_interval_ms
        if interval:
            self._file_check = PeriodicCall(self._runtime.clock, self._check_files)
            self._file_check.start(interval / 1000, now=False)

    def stop(self) -> None:
        if self._file_check is not None and self._file_check.running:
            self._file_check.stop()

    async def check(self, texts: Mapping[str, str]) -> None:
        """Read the stores that this broker would have with other dynamic settings; raise ConfigError."""
        if self._loaded and any(name.startswith(LISTENER_PREFIX) for name in texts):
            await self._runtime.in_thread(_load_all, self._config.preview(texts))

    def __getitem__(self, listener: str) -> ListenerTls:
        """Return the present state of a listener with TLS."""
        return self._loaded[listener]

    def engine_to(self, host: str) -> TlsEngine:
        """Return the engine of a connection to another broker, on the listener that brokers use."""
        client = self._loaded[self._config.inter_broker_listener.name].client
        assert client is not None
        return client.engine(host)

    def _settings_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(LISTENER_PREFIX) for name in names):
            run_in_background(log, self._load_again(list(self._loaded)), "the former certificates stay in use")

    def _check_files(self) -> Deferred[None]:
        return ensureDeferred(self._load_changed_files())

    async def _load_changed_files(self) -> None:
        try:
            names = await self._runtime.in_thread(_outdated, dict(self._loaded))
        except Exception:  # else the files would never be looked at again
            self._log_failure("the stores")
        else:
            await self._load_again(names)

    async def _load_again(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._loaded[name] = await self._runtime.in_thread(_load, self._config, name)
            except ConfigError as error:
                if self._runtime.may_log(f"stores of {name}"):
                    log.error("the former certificates stay in use: {error}", error=error)
            except Exception:
                self._log_failure(f"stores of {name}")
            else:
                log.info("read the key store and the trust store of listener {name} again", name=name)

    def _log_failure(self, about: str) -> None:
        if self._runtime.may_log(about):
            log.failure("the former certificates stay in use: {about} could not be read", about=about)
