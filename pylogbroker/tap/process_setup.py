"""Setup of a process that is only a broker, or a supervisor of brokers."""

from __future__ import annotations

import resource
import sys
from types import TracebackType

from pylogbroker.errors import StartupError


def prepare_process() -> None:
    """Allow many open files; show a StartupError as one line on stderr."""
    allow_many_files()
    sys.excepthook = _show_startup_errors_in_one_line


def allow_many_files() -> None:
    """Raise the limit of open files: partitions and connections take one or more each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _show_startup_errors_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, StartupError):
        print(f"pylogbroker: {error}", file=sys.__stderr__)  # sys.stderr goes to the log
    else:
        sys.__excepthook__(kind, error, traceback)
