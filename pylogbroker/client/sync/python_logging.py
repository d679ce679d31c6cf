"""Log lines of the package for programs without Twisted: they go to Python's `logging`.

Each line goes to the logger of its module, such as `pylogbroker.plugins.callback_handlers`, with its level. Libraries
are silent by convention: nothing is shown until the program configures `logging`.
"""

from __future__ import annotations

import logging
from functools import cache

from twisted.logger import ILogObserver, LogEvent, STDLibLogObserver, globalLogPublisher
from zope.interface import provider

_PACKAGE = "pylogbroker"


@cache
def forward_log() -> None:
    """Forward the package's log lines from now on, once for each process."""
    logging.getLogger(_PACKAGE).addHandler(logging.NullHandler())
    globalLogPublisher.addObserver(_forward)


@provider(ILogObserver)
def _forward(event: LogEvent) -> None:
    namespace = event.get("log_namespace", "")
    if namespace == _PACKAGE or namespace.startswith(f"{_PACKAGE}."):
        _observer(namespace)(event)


@cache
def _observer(namespace: str) -> ILogObserver:
    return STDLibLogObserver(namespace)
