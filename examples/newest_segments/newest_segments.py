"""A delete policy that counts: each log keeps its newest segments, whatever their age and size.

delete.policies=newest-segments:3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView, SegmentView


@implementer(IDeletePolicy)
@attrs.frozen
class NewestSegments:
    """All segments may go but the newest `count`."""

    count: int

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        return log.segments[: -self.count]


@implementer(IPlugin, IDeletePolicyFactory)
class NewestSegmentsFactory:
    """Reads the number of segments from behind the colon."""

    name = "newest-segments"

    def make(self, argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        if not (argument.isascii() and argument.isdecimal() and int(argument)):
            raise ValueError("expected how many segments are kept: newest-segments:3")
        return NewestSegments(int(argument))
