"""Log of a process that twistd runs.

This log appends, never rotates, and reopens its file on request, as logrotate expects. twistd's log file does not
append and rotates itself: logrotate's copytruncate leaves it full of NUL bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TextIO, cast

from twisted.logger import (
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    LegacyLogObserverWrapper,
    LogEvent,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    PredicateResult,
    textFileLogObserver,
)
from twisted.python.reflect import namedAny
from zope.interface import provider

from pylogbroker.config.log_levels import parse_log_levels
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.tap.json_log import json_file_observer

if TYPE_CHECKING:
    from twisted.python import syslog
else:
    syslog = on_first_use("twisted.python.syslog")

_DEFAULT_FILE = "twistd.log"
log = Logger()


class LogFile:
    """Text file that appends; raises OSError if it cannot be opened."""

    encoding = "utf-8"

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # twistd may change the directory
        self._file = self._open()

    def write(self, text: str) -> int:
        return self._file.write(text)

    def flush(self) -> None:
        self._file.flush()

    def reopen(self) -> None:
        """Open the file at the path now; on OSError, continue in the old one."""
        former = self._file
        is_new = not os.path.exists(self.path)
        self._file = self._open()
        if is_new:
            os.chmod(self.path, os.fstat(former.fileno()).st_mode & 0o777)
        former.close()

    def _open(self) -> TextIO:
        return open(self.path, "a", encoding=self.encoding, errors="backslashreplace")


class ProcessLog:
    is_json = False
    """True if lines are JSON, in a file or on standard output."""

    def __init__(self) -> None:
        self._twistd: Mapping[str, Any] = {}
        self._given: Callable[[], Any] | None = None
        self._file: LogFile | None = None
        self._predicate = LogLevelFilterPredicate()

    def take_over(self, twistd: MutableMapping[str, Any]) -> None:
        """Replace twistd's log at its destination; raise ConfigError if --logger cannot be imported."""
        if twistd.get("logger"):
            try:
                self._given = namedAny(twistd["logger"])
            except Exception as error:
                raise ConfigError(f"logger: {twistd['logger']!r} cannot be imported: {error}") from error
        self._twistd = dict(twistd)
        twistd["logger"] = f"{__name__}.PROCESS_LOG.observer"  # twistd expects a factory's name

    def set_levels(self, levels: str) -> None:
        self._predicate.clearLogLevels()
        for package, level in parse_log_levels(levels).items():
            self._predicate.setLogLevelForNamespace(package, LogLevel.levelWithName(level))

    def observer(self) -> ILogObserver:
        return FilteringLogObserver(self._sink(), [_without_plugin_cache, self._predicate])

    def reopen(self) -> None:
        """Reopen the file; log an error to the old one."""
        if self._file is None:
            return
        try:
            self._file.reopen()
        except OSError as error:
            log.error("cannot reopen the log {path}: {why}", path=self._file.path, why=error.strerror)

    def _sink(self) -> ILogObserver:
        if self._given is not None:
            return _modern(self._given())
        if self._twistd.get("syslog"):
            return _modern(syslog.SyslogObserver(self._twistd.get("prefix") or "").emit)
        path = self._twistd.get("logfile")
        if path == "-" and not self._twistd.get("nodaemon"):
            raise SystemExit("pylogbroker: a background broker cannot log to standard output: give --logfile a path")
        if path == "-" or (not path and self._twistd.get("nodaemon")):
            return self._observer(sys.stdout)
        try:
            self._file = LogFile(path or _DEFAULT_FILE)
        except OSError as error:
            raise SystemExit(f"pylogbroker: the log {path or _DEFAULT_FILE}: {error.strerror}") from error
        return self._observer(cast(TextIO, self._file))

    def _observer(self, file: TextIO) -> ILogObserver:
        return json_file_observer(file) if self.is_json else textFileLogObserver(file)


@provider(ILogFilterPredicate)
def _without_plugin_cache(event: LogEvent) -> Any:
    """Drop twistd's message that it cannot write its plugin cache.

    Another user installed the plugins: there is nothing to fix.
    """
    is_it = str(event.get("format", "")).startswith("Unable to write to plugin cache")
    return PredicateResult.no if is_it else PredicateResult.maybe


PROCESS_LOG = ProcessLog()


def _modern(observer: Any) -> ILogObserver:
    return cast(ILogObserver, observer if ILogObserver.providedBy(observer) else LegacyLogObserverWrapper(observer))
