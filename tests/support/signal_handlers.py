"""Signal handlers of the process, unchanged after each test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM.

    A reactor that has run leaves its own. Then Ctrl-C, also that of a later test, raises no KeyboardInterrupt.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
