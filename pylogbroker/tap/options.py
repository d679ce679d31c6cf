"""Command line of `twistd pylogbroker`.

A setting comes from the first of these that has it: `--override`; `--listener`, `--data-dir`, `--log-level` and
`--log-format`; the file of `--config`; its default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from getopt import GetoptError, gnu_getopt
from typing import Any

from twisted.python import usage

from pylogbroker import __version__
from pylogbroker.config import BrokerConfig, properties, reference, unknown_names
from pylogbroker.errors import ConfigError
from pylogbroker.tap.brokers.plan import parse_count, plan
from pylogbroker.tap.process_log import PROCESS_LOG

_DEFAULT_PID_FILE = "twistd.pid"


class Options(usage.Options):
    """`settings` maps names of settings to valid texts, after parsing."""

    synopsis = "[--config FILE] [--data-dir DIR] [--listener NAME://host:port]... [--override name=value]..."
    longdesc = (
        "Runs a broker that every Kafka client can use. Without options it listens on 127.0.0.1:9092, for clients on "
        "this machine only, and keeps its data in ./data."
    )
    optParameters = [
        ["config", "c", None, "File of settings, with Kafka's names and units: see etc/server.properties."],
        ["format", "f", "text", "Format of --describe-config: text, json or markdown."],
        ["brokers", "b", None, "Run this many brokers on this machine, as one cluster; auto: one for each core."],
    ]
    optFlags = [
        ["stop-with-stdin", None, "Stop when standard input is closed, and not by Ctrl-C: for supervisors."],
    ]

    settings: dict[str, str]
    broker_count: int | None = None  # None: one broker, which coordinates alone or by zookeeper.connect

    def __init__(self) -> None:
        super().__init__()
        self._directories: list[str] = []
        self._listeners: list[str] = []
        self._overrides: list[str] = []
        self._names: tuple[str, ...] = ()
        self._describes = False
        self._levels: list[str] = []
        self._log_format: str | None = None

    def opt_data_dir(self, directory: str) -> None:
        """Directory of the data, in place of log.dirs. Created if it does not exist."""
        self._directories.append(directory)

    def opt_listener(self, listener: str) -> None:
        """Listen on NAME://host:port, in place of `listeners`; port 0 is any free one. May be repeated."""
        self._listeners.append(listener)

    def opt_override(self, assignment: str) -> None:
        """Set name=value, in place of the file's value. May be repeated."""
        self._overrides.append(assignment)

    def parseOptions(self, options: list[str] | None = None) -> None:
        """Parse the command line; options may follow names, as in `--describe-config log.dirs --format json`."""
        given = sys.argv[1:] if options is None else options
        with suppress(GetoptError):  # Twisted's own parser reports it
            parsed, names = gnu_getopt(given, self.shortOpt, self.longOpt)
            options_first = []
            for name, value in parsed:
                has_value = len(name) == 2 or f"{name[2:]}=" in self.longOpt  # every short option has one
                options_first += [name, value] if has_value else [name]
            given = [*options_first, "--", *names]
        super().parseOptions(given)

    def opt_log_level(self, level: str) -> None:
        """Log from this level on: debug, info, warn, error, critical; or package=level. May be repeated."""
        self._levels.append(level)

    def opt_log_format(self, name: str) -> None:
        """Write the log as text, or as json: one object in a line."""
        self._log_format = name

    opt_d = opt_data_dir
    opt_l = opt_listener
    opt_o = opt_override

    def opt_version(self) -> None:
        """Print the version, and exit."""
        print(f"pylogbroker {__version__}")
        raise SystemExit(0)

    def opt_describe_config(self) -> None:
        """Print the settings NAME... (log.* is a pattern), or all, with type, default and meaning, and exit."""
        self._describes = True

    def parseArgs(self, *names: str) -> None:
        """Take the names after `--describe-config`; without it, arguments are errors."""
        self._names = names

    def postOptions(self) -> None:
        """Read and check the settings; an invalid one ends the process with one line on stderr."""
        try:
            if self._describes:
                print(self._description(), end="")
                raise SystemExit(0)
            if self._names:
                raise ConfigError(f"unexpected argument {self._names[0]!r}; options begin with --, see --help")
            if self["brokers"] is not None:
                self.broker_count = parse_count(self["brokers"])
            self.settings = self.read_settings()
            if self.parent is not None:
                PROCESS_LOG.take_over(self.parent)
                PROCESS_LOG.set_levels(self.settings.get("logger.levels", ""))
                PROCESS_LOG.is_json = self.settings.get("logger.format") == "json"
        except ConfigError as error:
            raise SystemExit(f"pylogbroker: {error}") from error
        self._keep_out_of_the_working_directory()

    def _description(self) -> str:
        render = reference.FORMATS.get(self["format"])
        if render is None:
            raise ConfigError(f"format: {self['format']!r} is not accepted; expected {', '.join(reference.FORMATS)}")
        return render(reference.select(self._names))

    @property
    def logs_elsewhere(self) -> bool:
        twistd: Mapping[str, Any] = self.parent or {}
        return not twistd.get("nodaemon") or bool(twistd.get("syslog")) or twistd.get("logfile") not in (None, "-")

    @property
    def changes_root_or_user(self) -> bool:
        """True if twistd lets the broker start in another root, or as another user, who may not read the package."""
        twistd: Mapping[str, Any] = self.parent or {}
        return any(twistd.get(name) is not None for name in ("chroot", "uid", "gid"))

    def read_settings(self) -> dict[str, str]:
        """Read the file and return all settings; raise ConfigError if unreadable or invalid. Blocks."""
        given = self._given()
        file = self["config"]
        read = {} if file is None else properties.read(_path("config", file))
        try:
            self._check(read | given)
        except ConfigError as error:
            name = str(error).partition(":")[0]
            where = f"{file}: " if name in read and name not in given else ""
            raise ConfigError("; ".join([f"{where}{error}", *unknown_names(read | given)])) from error
        return read | given

    def _check(self, settings: dict[str, str]) -> None:
        if self.broker_count is None:
            BrokerConfig(settings)
        else:
            plan(settings, self.broker_count)

    @property
    def arguments(self) -> list[str]:
        """Options that give another broker the same settings."""
        file = [f"--config={os.path.abspath(self['config'])}"] if self["config"] is not None else []
        return file + [f"--override={name}={value}" for name, value in self._given().items()]

    def _given(self) -> dict[str, str]:
        given = {}
        if self._directories:
            given["log.dirs"] = _directory(",".join(self._directories))
        if self._listeners:
            given["listeners"] = ",".join(self._listeners)
        if self._levels:
            given["logger.levels"] = ",".join(self._levels)
        if self._log_format is not None:
            given["logger.format"] = self._log_format
        return given | properties.parse_assignments(self._overrides)

    def _keep_out_of_the_working_directory(self) -> None:
        """Write no default pid file in the foreground: brokers may share a working directory."""
        twistd = self.parent
        if twistd is not None and twistd.get("nodaemon") and twistd.get("pidfile") == _DEFAULT_PID_FILE:
            twistd["pidfile"] = ""


def _path(option: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{option}: {text!r} is not accepted; expected a path")
    return text


def _directory(text: str) -> str:
    if "," in text:
        raise ConfigError(f"data-dir: {text!r} is not accepted; expected one directory: log.dirs takes several")
    return _path("data-dir", text)
