"""Delete policies: which segments of a log may be deleted."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

import attrs
from zope.interface import Attribute, Interface


@attrs.frozen
class SegmentView:
    """Sizes in bytes, times in milliseconds since 1970."""

    base_offset: int  # no record is below
    next_offset: int  # of the next segment, or the log end offset
    size: int  # of the record batches, without indexes
    largest_timestamp: int  # -1 without timestamps
    modified_ms: int  # last write to the file
    active: bool  # the last segment, to which records are appended


@attrs.frozen(eq=False, repr=False)
class LogFiles:
    """Files of a log, for policies that do work before segments are deleted.

    A segment's file is `directory` and the base offset in 20 digits, with the suffix `.kafka`.
    """

    directory: str
    topic_id: UUID | None
    stable_offset: int  # all transactions below have ended
    aborted: Callable[[int, int], Sequence[tuple[int, int]]]
    """Return producer ids and first offsets of aborted transactions between two offsets, at most `stable_offset`."""


@attrs.frozen
class LogView:
    """Snapshot of a log; segments are oldest first, without an empty active one."""

    topic: str
    partition: int
    segments: tuple[SegmentView, ...]
    files: LogFiles | None = attrs.field(default=None, eq=False, repr=False)
    """None in a preview, and for a log whose segments are not all local files."""
    is_preview: bool = False
    """True if nothing is going to be deleted: the caller shows what would be."""


class IDeletePolicy(Interface):
    """Delete policy of one topic. It computes on values; with the files of a log it may begin work elsewhere."""

    def deletable(log: LogView, now_ms: int) -> Iterable[SegmentView]:
        """Return the segments that may be deleted: a prefix of `log.segments`, possibly empty.

        Called on the reactor thread every `log.retention.check.interval.ms` for each log with segments; must not block.
        `now_ms` is in milliseconds since 1970. If the active segment is included, the log rolls first.

        The log keeps segments with records not below the high watermark. Several policies apply in sequence, each to
        the segments left by earlier ones. A policy that raises, or returns anything but a prefix, deletes nothing; each
        cause is logged once.
        """


class IDeletePolicyFactory(Interface):
    """Plugin factory of delete policies. `log.delete.policies` names it for all topics, `delete.policies` for one.

    Define an instance, which also provides `twisted.plugin.IPlugin`, in a plugin module (see `pylogbroker.plugins`).
    """

    name: str = Attribute("The name used in settings, made of a-z, 0-9 and -; unique among delete policies.")

    def make(argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        """Return the policy of a topic with these settings.

        `argument` is the text after the name and a colon in the setting: "3" in `delete.policies=newest-segments:3`.
        Without one it is empty; it never contains a comma. `settings` holds the topic's effective values by name
        (`retention.ms`), in Kafka's units, and is immutable: a change makes a new policy.

        Raise ValueError for an invalid argument; its text ends the sentence "... is not accepted; ". Called on the
        reactor thread, also to validate settings; must not block.
        """
