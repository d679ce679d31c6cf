"""Calls delete policies, and checks their results.

A policy may be third-party code. Its result is read only up to the log's number of segments, in case it is endless. A
policy that raises, or names wrong segments, deletes nothing. Each cause is reported once an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import IDeletePolicy, LogView, SegmentView

REPEAT_MS = 3_600_000

Report = Callable[[LogView, str, BaseException], object]


class Nonsense(PylogbrokerError):
    """A policy named segments that are not the oldest ones in their order."""


@attrs.define(eq=False, repr=False)
class GuardedPolicy:
    """One topic's policy. `report` gets the log, the cause and the exception of a failure."""

    _policy: IDeletePolicy
    _report: Report
    _reported_ms: dict[str, int] = attrs.field(factory=dict, init=False)  # by cause

    def run(self, log: LogView, now_ms: int) -> int:
        """Return how many of the oldest segments to delete."""
        try:
            return _length(log, iter(self._policy.deletable(log, now_ms)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit: a policy must not stop the broker
            cause = str(error) if isinstance(error, Nonsense) else f"it raised {type(error).__name__}"
            reported_ms = self._reported_ms.get(cause)
            if reported_ms is None or not 0 <= now_ms - reported_ms < REPEAT_MS:
                self._reported_ms[cause] = now_ms
                self._report(log, cause, error)
            return 0


def _length(log: LogView, named: Iterator[object]) -> int:
    segments = log.segments
    views = list(islice(named, len(segments) + 1))
    for number, name in enumerate(views):
        if not isinstance(name, SegmentView):
            raise Nonsense(f"it named an object of type {type(name).__name__} instead of a segment")
        if number == len(segments) or name != segments[number]:
            exists = name in segments
            raise Nonsense(f"it named {'segments out of order' if exists else 'a segment that the log lacks'}")
    return len(views)
