"""Setup of a process that is only a broker, or a supervisor of brokers."""

from __future__ import annotations

import resource
import sys
from types import TracebackType
from typing import Final

from pylogbroker.errors import StartupError
from pylogbroker.system import open_files_max

_SWITCH_SECONDS: Final = 0.0005


def prepare_process() -> None:
    """Allow many open files; show a StartupError as one line on stderr."""
    _allow_many_files()
    sys.excepthook = _show_startup_errors_in_one_line


def _allow_many_files() -> None:
    """Raise the limit of open files: partitions and connections take one or more each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_max(most), most))


def share_with_threads() -> None:
    """Let threads wait less for each other: a thread that works keeps the interpreter for 5 ms by default.

    In a cluster each answer of ZooKeeper passes through kazoo's thread, and a controller that takes over thousands of
    partitions waits for thousands of answers. With an archive, threads list segments and search records. The reactor
    waits for them behind each call of the system.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def _show_startup_errors_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, StartupError):
        print(f"pylogbroker: {error}", file=sys.__stderr__)  # sys.stderr goes to the log
    else:
        sys.__excepthook__(kind, error, traceback)
