"""The built-in delete policies.

name                 deletes                                                          setting
record-time          segments whose newest record is older than                       retention.ms
modification-time    segments whose file was last written to longer ago than          retention.ms
size                 the oldest segments, while the log stays at least as large as    retention.bytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView, SegmentView


@implementer(IDeletePolicy)
@attrs.frozen
class RecordTimePolicy:
    """Delete segments whose newest record is older than `retention_ms`; negative keeps all.

    The file's modification time replaces missing timestamps (message format v0).
    """

    retention_ms: int

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        if self.retention_ms < 0:
            return
        for segment in log.segments:
            time = segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.modified_ms
            if now_ms - time <= self.retention_ms:
                return
            yield segment


@implementer(IDeletePolicy)
@attrs.frozen
class ModificationTimePolicy:
    """Delete segments whose file was last written over `retention_ms` ago; negative keeps all."""

    retention_ms: int

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        if self.retention_ms < 0:
            return
        for segment in log.segments:
            if now_ms - segment.modified_ms <= self.retention_ms:
                return
            yield segment


@implementer(IDeletePolicy)
@attrs.frozen
class SizePolicy:
    """Delete the oldest segments while the rest has at least `retention_bytes`; negative keeps all."""

    retention_bytes: int

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        if self.retention_bytes < 0:
            return
        surplus = sum(segment.size for segment in log.segments) - self.retention_bytes
        for segment in log.segments:
            surplus -= segment.size
            if surplus < 0:
                return
            yield segment


@implementer(IPlugin, IDeletePolicyFactory)
@attrs.frozen
class BuiltIn:
    name: str
    _setting: str
    _policy: Callable[[int], IDeletePolicy]

    def make(self, argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        if argument:
            raise ValueError(f"{self.name} takes no argument; it follows the setting {self._setting}")
        return self._policy(cast(int, settings[self._setting]))


record_time = BuiltIn("record-time", "retention.ms", RecordTimePolicy)
modification_time = BuiltIn("modification-time", "retention.ms", ModificationTimePolicy)
size = BuiltIn("size", "retention.bytes", SizePolicy)
