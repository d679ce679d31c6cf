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
from pylogbroker.tap.garbage import nothing_is_garbage
from pylogbroker.tap.node import Node
from pylogbroker.tap.options import Options

T = TypeVar("T")
log = Logger()


def make_service(options: Options) -> IService:
    """What twistd runs."""
    from twisted.internet import reactor  # installed by twistd by now, and not sooner

    sys.excepthook = _show_startup_errors_in_one_line
    service = MultiService()
    BrokerService(reactor, options.config).setServiceParent(service)
    return service


class BrokerService(Service):
    """One broker."""

    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        self._node = Node(reactor, config)
        self._warnings = config.warnings

    def privilegedStartService(self) -> None:
        """Open everything, ports below 1024 too; StartupError if that cannot be."""
        for warning in self._warnings:
            log.warn("{warning}", warning=warning)
        with nothing_is_garbage():
            _at_once(self._node.start())

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
