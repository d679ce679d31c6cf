"""Mirrors as a service of Twisted, for twistd and for programs.

MirrorService(reactor, mirrors_of(properties)).setServiceParent(application)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, ensureDeferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.errors import PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.mirror.mirror import Mirror, MirrorStatus
from pylogbroker.mirror.settings import MirrorSettings
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses

if TYPE_CHECKING:
    from pylogbroker.mirror import metrics
else:
    metrics = on_first_use("pylogbroker.mirror.metrics")

log = Logger()

_RETRY_SECONDS: Final = 10.0


class _KeptMirror:
    """A mirror that begins again after each error, such as a cluster that cannot be reached."""

    def __init__(self, settings: MirrorSettings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._pauses = Pauses(reactor)
        self.mirror = Mirror(settings, reactor)

    async def run(self) -> None:
        while not self._pauses.is_closed:
            try:
                await self.mirror.run()
                return
            except PylogbrokerError as error:
                log.error("{mirror}: {error}; it is tried again", mirror=self.mirror, error=error)
            try:
                await self._pauses.pause(_RETRY_SECONDS)
            except Closed:
                return
            self.mirror = Mirror(self._settings, self._reactor)

    def stop(self) -> Deferred[None]:
        self._pauses.close()
        return self.mirror.stop()


class MirrorService(Service):
    """Runs mirrors from start to stop. Settings are checked when it is made: ConfigError.

    At `metrics_address`, HOST:PORT, Prometheus gets metrics.
    """

    def __init__(self, reactor: Any, mirrors: Iterable[MirrorSettings], *, metrics_address: str = "") -> None:
        self._reactor = reactor
        self._metrics_address = metrics_address
        self._ports: list[IListeningPort] = []
        self._kept = [_KeptMirror(settings, reactor) for settings in mirrors]

    @property
    def status(self) -> list[MirrorStatus]:
        return [kept.mirror.status for kept in self._kept]

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        if self._metrics_address:
            listening = metrics.listen(
                self._reactor, self._metrics_address, lambda: [kept.mirror for kept in self._kept]
            )
            self._ports.append(listening)
        for kept in self._kept:
            run_in_background(log, kept.run(), "the mirror {mirror} ended", mirror=kept.mirror)

    def stopService(self) -> Deferred[None]:
        """Commit what was copied; fire when all connections are closed."""
        super().stopService()  # type: ignore[no-untyped-call]
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        await DeferredList([kept.stop() for kept in self._kept])
        while self._ports:
            await maybeDeferred(self._ports.pop().stopListening)
