"""Setup of a process that is only a broker, and its service for twistd.

The start ends before the reactor runs: a StartupError ends the process with one line and a non-zero status.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig, Reloaded
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.features import on_first_use
from pylogbroker.net.poller import make_eager
from pylogbroker.tap.brokers.stdin import stop_with_stdin
from pylogbroker.tap.change_log import shown_changes
from pylogbroker.tap.full_collections import FullCollections
from pylogbroker.tap.garbage_collection import FROZEN_OBJECTS, without_garbage_collection
from pylogbroker.tap.options import Options
from pylogbroker.tap.process_log import PROCESS_LOG
from pylogbroker.tap.process_setup import prepare_process, share_with_threads
from pylogbroker.tap.service import BrokerService
from pylogbroker.tap.signals import Signals
from pylogbroker.tap.steady_clock import make_steady

if TYPE_CHECKING:
    from pylogbroker.tap import preload
else:
    preload = on_first_use("pylogbroker.tap.preload")

log = Logger()


def make_service(options: Options) -> IService:
    from twisted.internet import reactor  # only now has twistd installed it

    prepare_process()
    make_eager(reactor)
    make_steady(reactor)
    service = MultiService()
    if options["stop-with-stdin"]:
        stop_with_stdin(reactor)
    if options.changes_root_or_user:
        preload.import_all()
    broker = TwistdService(reactor, options)
    broker.setServiceParent(service)
    Signals(reactor, broker.reload_file, PROCESS_LOG.reopen).handle()
    return service


class TwistdService(BrokerService):
    """Opens files and ports as the user of `--uid`."""

    accepts_unknown_names = True

    def __init__(self, reactor: Any, options: Options) -> None:
        super().__init__(reactor, options.settings)
        self._options = options
        self.has_ui = not options.changes_root_or_user  # who may not read the files of its pages
        self._full_collections = FullCollections(reactor, FROZEN_OBJECTS)
        self._is_stopped = False

    def startService(self) -> None:
        config = BrokerConfig(self._settings)
        if config.in_cluster or config.remote_log_storage_system_enable:
            share_with_threads()
        if config.in_cluster:
            self._reactor.callWhenRunning(self._start_when_running)
        else:
            self._start_before_running()

    def _start_when_running(self) -> None:
        """Start a broker of a cluster: its connection to ZooKeeper needs a running reactor."""
        super().startService()
        self.listening.addCallbacks(lambda _: self._full_collections.start(), self._end_process)
        self.ended.addErrback(self._ended_by_itself)

    def _end_process(self, reason: Failure) -> None:
        """End the process with status 1, unless it ends anyway; `start_failed` has logged why, if a log is kept."""
        if self._is_stopped:
            return
        if reason.check(StartupError):
            print(f"pylogbroker: {reason.value}", file=sys.__stderr__)
        elif not self._options.logs_elsewhere:
            log.failure("the broker cannot start", reason)
        self._stop_reactor()

    def _ended_by_itself(self, reason: Failure) -> None:
        """End the process with status 1; the log has the reason."""
        if not self._is_stopped:
            self._stop_reactor()

    def _stop_reactor(self) -> None:
        self._reactor.addSystemEventTrigger("after", "shutdown", os._exit, 1)
        self._reactor.callLater(0, self._reactor.stop)  # at once is too early: it is not running yet

    def _start_before_running(self) -> None:
        outcome: list[object] = []
        with without_garbage_collection():
            super().startService()
            self.listening.addBoth(outcome.append)
        if not outcome:
            raise StartupError("twistd starts a broker before its reactor runs, but it runs already")
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()
        self._full_collections.start()

    def stopService(self) -> Deferred[None]:
        self._is_stopped = True
        self._full_collections.stop()
        return super().stopService()

    def use(self, config: BrokerConfig) -> None:
        set_levels = PROCESS_LOG.set_levels
        config.observe(lambda changed: set_levels(config.logger_levels))
        set_levels(config.logger_levels)

    def start_failed(self, reason: Failure) -> None:
        """Log the reason, unless the terminal shows it."""
        if self._options.logs_elsewhere:
            super().start_failed(reason)

    def reload_file(self) -> Deferred[None]:
        """Reopen the log; apply the file of settings again."""
        PROCESS_LOG.reopen()
        return ensureDeferred(self._reload_file())

    async def _reload_file(self) -> None:
        file = self._options["config"]
        if file is None:
            log.info("no settings to reload: the broker was started without --config")
            return
        try:
            reloaded = await self.reload(await deferToThread(self._options.read_settings))
        except ConfigError as error:
            log.error("cannot reload the settings, none is changed: {why}", why=error)
            return
        except Exception:
            log.failure("cannot reload the settings")
            return
        if reloaded is not None:
            _log_reload(file, reloaded)


def _log_reload(file: str, reloaded: Reloaded) -> None:
    for warning in reloaded.warnings:
        log.warn("{warning}", warning=warning)
    log.info("reloaded {file}: {changes}", file=file, changes=shown_changes(reloaded.changes) or "nothing changes")
    for name in reloaded.overridden:
        log.warn("{name} of {file} has no effect: a value set by AlterConfigs overrides it", name=name, file=file)
    if reloaded.postponed:
        log.warn(
            "these settings of {file} take effect after a restart: {names}",
            file=file,
            names=", ".join(reloaded.postponed),
        )
