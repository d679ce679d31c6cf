"""Delete policy that keeps a log's newest segments, whatever their age and size.

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
    """Policy that allows deleting all but the newest `count` segments."""

    count: int

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        return log.segments[: -self.count]


@implementer(IPlugin, IDeletePolicyFactory)
class NewestSegmentsFactory:
    """Factory whose argument, after the colon, is the number of segments."""

    name = "newest-segments"

    def make(self, argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        if not (argument.isascii() and argument.isdecimal() and int(argument)):
            raise ValueError("expected how many segments are kept: newest-segments:3")
        return NewestSegments(int(argument))
