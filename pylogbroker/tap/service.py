"""The broker as a service of twistd.

All of the start happens before the reactor runs, so that whoever started the broker sees at once whether it did: a
StartupError ends the process with one line and a status that is not 0.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.net.polling import make_eager
from pylogbroker.tap.garbage import nothing_is_garbage
from pylogbroker.tap.node import Node
from pylogbroker.tap.options import Options
from pylogbroker.tap.signals import end_once_by_signals

T = TypeVar("T")
log = Logger()


def make_service(options: Options) -> IService:
    """What twistd runs."""
    from twisted.internet import reactor  # installed by twistd by now, and not sooner

    make_eager(reactor)
    sys.excepthook = _show_startup_errors_in_one_line
    service = MultiService()
    BrokerService(reactor, options.config, logs_elsewhere=options.logs_elsewhere).setServiceParent(service)
    return service


class BrokerService(Service):
    """One broker. All of it is opened as the user that twistd changes to, if it is told to."""

    def __init__(self, reactor: Any, config: BrokerConfig, *, logs_elsewhere: bool = False) -> None:
        self._node = Node(reactor, config)
        self._reactor = reactor
        self._logs_elsewhere = logs_elsewhere

    def startService(self) -> None:
        """Open everything; StartupError if that cannot be."""
        try:
            with nothing_is_garbage():
                _at_once(self._node.start())
        except StartupError as error:
            if self._logs_elsewhere:
                log.critical("the broker cannot start: {reason}", reason=error)
            raise
        super().startService()
        self._reactor.callWhenRunning(end_once_by_signals, self._reactor)

    def stopService(self) -> Deferred[None]:
        """Close everything; what is under way is answered first."""
        super().stopService()
        return ensureDeferred(self._node.stop())


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing, as nothing does before the reactor runs."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise StartupError("the start waits for what comes only later")


def _show_startup_errors_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, StartupError):
        print(f"pylogbroker: {error}", file=sys.__stderr__)  # sys.stderr goes to the log
    else:
        sys.__excepthook__(kind, error, traceback)
