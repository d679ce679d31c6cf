"""The service that `twistd pylogbroker` runs, in a process that is a broker and nothing else.

All of the start happens before the reactor runs, so that whoever started the broker sees at once whether it did: a
StartupError ends the process with one line and a status that is not 0.

What is done to the process as a whole is done here: limits, garbage collection, polling, signals, the log.
"""

from __future__ import annotations

import resource
import sys
from types import TracebackType
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.python.failure import Failure

from pylogbroker.errors import StartupError
from pylogbroker.net.polling import make_eager
from pylogbroker.tap.garbage import nothing_is_garbage
from pylogbroker.tap.options import Options
from pylogbroker.tap.service import BrokerService
from pylogbroker.tap.signals import end_once_by_signals


def make_service(options: Options) -> IService:
    """The service, with the process made ready for it."""
    from twisted.internet import reactor  # installed by twistd by now, and not sooner

    allow_many_files()
    make_eager(reactor)
    sys.excepthook = _show_startup_errors_in_one_line
    service = MultiService()
    TwistdService(reactor, options).setServiceParent(service)
    return service


class TwistdService(BrokerService):
    """The broker of a twistd process.  All of it is opened as the user that twistd changes to, if it is told to."""

    def __init__(self, reactor: Any, options: Options) -> None:
        super().__init__(reactor, options.settings)
        self._logs_elsewhere = options.logs_elsewhere

    def startService(self) -> None:
        """Open everything; StartupError if that cannot be."""
        outcome: list[object] = []
        with nothing_is_garbage():
            super().startService()
            self.listening.addBoth(outcome.append)
        if not outcome:
            raise StartupError("twistd starts a broker before its reactor runs, but it runs already")
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()
        self._reactor.callWhenRunning(end_once_by_signals, self._reactor)

    def start_failed(self, reason: Failure) -> None:
        """Say in the log that the broker does not run, unless whoever starts it sees that anyway."""
        if self._logs_elsewhere:
            super().start_failed(reason)


def allow_many_files() -> None:
    """Allow as many open files as the system gives: every partition and every connection is one or more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _show_startup_errors_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, StartupError):
        print(f"pylogbroker: {error}", file=sys.__stderr__)  # sys.stderr goes to the log
    else:
        sys.__excepthook__(kind, error, traceback)
