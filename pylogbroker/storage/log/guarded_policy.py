"""What a log believes of a delete policy: an answer that makes sense, and nothing else.

A policy may be anybody's code.  Its answer is looked at item by item, and not beyond the number of segments there are,
so that one without an end does no harm.  One that raises, or names what it must not, deletes nothing.  As a rule it
goes on so, round by round and log by log, so each cause is reported once an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import IDeletePolicy, LogView, SegmentView

REPEAT_MS = 3_600_000
"""How long a report of a policy that deletes nothing is not repeated."""

Report = Callable[[LogView, str, BaseException], object]


class Nonsense(PylogbrokerError):
    """A policy named what is not the oldest segments in their order."""


@attrs.define(eq=False)
class GuardedPolicy:
    """One topic's policy, asked with care.  `report` is told of what is wrong: the log, the cause and the exception."""

    _policy: IDeletePolicy
    _report: Report
    _reported_ms: dict[str, int] = attrs.field(factory=dict, init=False)  # by cause

    def run(self, log: LogView, now_ms: int) -> int:
        """How many of the oldest segments may go."""
        try:
            return _length(log, iter(self._policy.deletable(log, now_ms)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, too: a policy does not decide when the broker ends
            cause = str(error) if isinstance(error, Nonsense) else f"it raised {type(error).__name__}"
            reported_ms = self._reported_ms.get(cause)
            if reported_ms is None or not 0 <= now_ms - reported_ms < REPEAT_MS:
                self._reported_ms[cause] = now_ms
                self._report(log, cause, error)
            return 0


def _length(log: LogView, named: Iterator[object]) -> int:
    """The number of segments that were named, if they are the oldest in their order."""
    segments = log.segments
    found = list(islice(named, len(segments) + 1))
    for number, name in enumerate(found):
        if not isinstance(name, SegmentView):
            raise Nonsense(f"it named what is no segment but of the type {type(name).__name__}")
        if number == len(segments) or name != segments[number]:
            known = name in segments
            raise Nonsense(f"it named {'segments out of their order' if known else 'a segment that the log lacks'}")
    return len(found)
