"""Fails a test that starts a process although nothing in its code says so.

`make quick` leaves out the tests that start processes; `tests.support.needs` finds them by their code. A test that it
misses would make `make quick` slow, or need programs that are not installed. So such a test fails in every run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Python raises these audit events when a process is started.
EVENTS = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"))

#: Program of `ctypes.util.find_library`, which packages call when they are imported, by whichever test is first.
LIBRARY_SEARCH = "/sbin/ldconfig"


class UnexpectedProcess(Exception):
    """A test that is not known to start processes has started one."""


class ProcessGuard:
    """Watches the starts of processes in this interpreter, from `install` until the interpreter ends."""

    def __init__(self) -> None:
        self._test: str | None = None
        self._error: UnexpectedProcess | None = None

    def install(self) -> None:
        """Begin to watch. Python cannot remove an audit hook."""
        sys.addaudithook(lambda event, arguments: self.audit(event, arguments))

    @contextmanager
    def forbid(self, test: str) -> Iterator[None]:
        """Let the start of a process raise UnexpectedProcess, and raise it at the end if the test caught it."""
        self._test, self._error = test, None
        try:
            yield
        finally:
            self._test = None
        if self._error is not None:
            raise self._error

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        """Take an audit event of the interpreter."""
        if self._test is None or event not in EVENTS or arguments[:1] == (LIBRARY_SEARCH,):
            return
        self._error = UnexpectedProcess(
            f"{self._test} starts a process ({event} {arguments[:2]}), but its code does not show that, so "
            "`make quick` runs it. Start the process in a fixture or helper below tests/ that names `subprocess`, or "
            "name the fixture in FIXTURES of tests/support/needs.py"
        )
        raise self._error
