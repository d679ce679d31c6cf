"""The log of a process that twistd runs: where it goes, and how much of it.

twistd's own log file is not opened for appending and rotates itself, which no other rotation survives: one that copies
and truncates leaves a file full of NUL bytes.  This one is appended to, never rotated, and opened again on request, as
logrotate and its like expect.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TextIO, cast

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

_DEFAULT_FILE = "twistd.log"
log = Logger()


class LogFile:
    """A text file that is appended to and can be opened again; OSError if it cannot be opened."""

    encoding = "utf-8"

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # twistd may change the directory
        self._file = self._open()

    def write(self, text: str) -> int:
        """Append."""
        return self._file.write(text)

    def flush(self) -> None:
        """Hand to the system what was written."""
        self._file.flush()

    def reopen(self) -> None:
        """Go on in the file that the path leads to now; with OSError in the one of before."""
        former = self._file
        is_new = not os.path.exists(self.path)
        self._file = self._open()
        if is_new:
            os.chmod(self.path, os.fstat(former.fileno()).st_mode & 0o777)
        former.close()

    def _open(self) -> TextIO:
        return open(self.path, "a", encoding=self.encoding, errors="backslashreplace")


class ProcessLog:
    """A log as twistd's options ask for it, with levels."""

    def __init__(self) -> None:
        self._twistd: Mapping[str, Any] = {}
        self._given: Callable[[], Any] | None = None
        self._file: LogFile | None = None
        self._predicate = LogLevelFilterPredicate()

    def take_over(self, twistd: MutableMapping[str, Any]) -> None:
        """Log where twistd's options say, in place of twistd; ConfigError if --logger names nothing."""
        if twistd.get("logger"):
            try:
                self._given = namedAny(twistd["logger"])
            except Exception as error:
                raise ConfigError(f"logger: {twistd['logger']!r} cannot be imported: {error}") from error
        self._twistd = dict(twistd)
        twistd["logger"] = f"{__name__}.PROCESS_LOG.observer"  # twistd takes the name of a factory

    def set_levels(self, levels: str) -> None:
        """Let through what `logger.levels` says, from now on."""
        self._predicate.clearLogLevels()
        for package, level in parse_log_levels(levels).items():
            self._predicate.setLogLevelForNamespace(package, LogLevel.levelWithName(level))

    def observer(self) -> ILogObserver:
        """Open the log: what twistd calls for the option --logger."""
        return FilteringLogObserver(self._sink(), [_without_plugin_cache, self._predicate])

    def reopen(self) -> None:
        """Go on in the file that the log's path leads to now."""
        if self._file is None:
            return
        try:
            self._file.reopen()
        except OSError as error:
            log.error("the log {path} cannot be opened again: {why}", path=self._file.path, why=error.strerror)

    def _sink(self) -> ILogObserver:
        if self._given is not None:
            return _modern(self._given())
        if self._twistd.get("syslog"):
            from twisted.python.syslog import SyslogObserver

            return _modern(SyslogObserver(self._twistd.get("prefix") or "").emit)
        path = self._twistd.get("logfile")
        if path == "-" and not self._twistd.get("nodaemon"):
            raise SystemExit("pylogbroker: a broker in the background cannot log to its standard output: give a file")
        if path == "-" or (not path and self._twistd.get("nodaemon")):
            return textFileLogObserver(sys.stdout)
        try:
            self._file = LogFile(path or _DEFAULT_FILE)
        except OSError as error:
            raise SystemExit(f"pylogbroker: the log {path or _DEFAULT_FILE}: {error.strerror}") from error
        return textFileLogObserver(cast(TextIO, self._file))


@provider(ILogFilterPredicate)
def _without_plugin_cache(event: LogEvent) -> Any:
    """Leave out that twistd cannot cache which plugins there are.

    Another user installed them then; the next start looks through the directories again, and nobody need do anything.
    """
    is_it = str(event.get("format", "")).startswith("Unable to write to plugin cache")
    return PredicateResult.no if is_it else PredicateResult.maybe


PROCESS_LOG = ProcessLog()
"""The one that twistd uses."""


def _modern(observer: Any) -> ILogObserver:
    return cast(ILogObserver, observer if ILogObserver.providedBy(observer) else LegacyLogObserverWrapper(observer))
