"""Log lines of the broker, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.logger import LogEvent, formatEvent, globalLogPublisher


@contextmanager
def logged_lines() -> Iterator[list[str]]:
    """The lines that are logged while the block runs, as they come."""
    lines: list[str] = []

    def observe(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(observe)
