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
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig, Reloaded
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.net.polling import make_eager
from pylogbroker.tap.change_log import shown_changes
from pylogbroker.tap.garbage import nothing_is_garbage
from pylogbroker.tap.options import Options
from pylogbroker.tap.process_log import PROCESS_LOG
from pylogbroker.tap.service import BrokerService
from pylogbroker.tap.signals import Signals

log = Logger()


def make_service(options: Options) -> IService:
    """The service, with the process made ready for it."""
    from twisted.internet import reactor  # installed by twistd by now, and not sooner

    allow_many_files()
    make_eager(reactor)
    sys.excepthook = _show_startup_errors_in_one_line
    service = MultiService()
    broker = TwistdService(reactor, options)
    broker.setServiceParent(service)
    Signals(reactor, broker.reload_file, PROCESS_LOG.reopen).handle()
    return service


class TwistdService(BrokerService):
    """The broker of a twistd process.  All of it is opened as the user that twistd changes to, if it is told to."""

    def __init__(self, reactor: Any, options: Options) -> None:
        super().__init__(reactor, options.settings)
        self._options = options

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

    def use(self, config: BrokerConfig) -> None:
        """Log as the settings say, now and when they change."""
        set_levels = PROCESS_LOG.set_levels
        config.observe(lambda changed: set_levels(config.text("logger.levels")))
        set_levels(config.text("logger.levels"))

    def start_failed(self, reason: Failure) -> None:
        """Say in the log that the broker does not run, unless whoever starts it sees that anyway."""
        if self._options.logs_elsewhere:
            super().start_failed(reason)

    def reload_file(self) -> Deferred[None]:
        """Open the log again, and put in force what the file of the settings says now."""
        PROCESS_LOG.reopen()
        return ensureDeferred(self._reload_file())

    async def _reload_file(self) -> None:
        file = self._options["config"]
        if file is None:
            log.info("there is no file of settings to reload: the broker was started without --config")
            return
        try:
            reloaded = await self.reload(await deferToThread(self._options.read_settings))
        except ConfigError as error:
            log.error("the settings are not reloaded, and none is changed: {why}", why=error)
            return
        except Exception:
            log.failure("the settings are not reloaded")
            return
        if reloaded is not None:
            _tell(file, reloaded)


def allow_many_files() -> None:
    """Allow as many open files as the system gives: every partition and every connection is one or more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tell(file: str, reloaded: Reloaded) -> None:
    for warning in reloaded.warnings:
        log.warn("{warning}", warning=warning)
    log.info("reloaded {file}: {changes}", file=file, changes=shown_changes(reloaded.changes) or "nothing changes")
    for name in reloaded.overridden:
        log.warn("{name} of {file} has no effect: a value that was set by AlterConfigs counts", name=name, file=file)
    if reloaded.postponed:
        log.warn(
            "these settings of {file} take effect when the broker is restarted: {names}",
            file=file,
            names=", ".join(reloaded.postponed),
        )


def _show_startup_errors_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, StartupError):
        print(f"pylogbroker: {error}", file=sys.__stderr__)  # sys.stderr goes to the log
    else:
        sys.__excepthook__(kind, error, traceback)
