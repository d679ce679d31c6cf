"""Delete policies: what says which segments of a log may go."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from zope.interface import Attribute, Interface


@attrs.frozen
class SegmentView:
    """What there is to know of one segment of a log. Sizes in bytes, times in milliseconds since 1970."""

    base_offset: int  # no record has a smaller offset
    next_offset: int  # the base offset of the segment that follows; of the last one, where the log ends
    size: int  # of the entries, without indexes
    largest_timestamp: int  # of its records; -1 if they have none
    modified_ms: int  # when its file was written to last
    active: bool  # whether it is the last one, that records are appended to


@attrs.frozen
class LogView:
    """The log of one partition at one moment: its segments, oldest first. An active one that is empty is left out."""

    topic: str
    partition: int
    segments: tuple[SegmentView, ...]


class IDeletePolicy(Interface):
    """Says which segments of a log may be deleted: one topic's policy, made by an `IDeletePolicyFactory`.

    It looks at values and answers with values: it neither touches files nor knows the log.
    """

    def deletable(log: LogView, now_ms: int) -> Iterable[SegmentView]:
        """The segments that may go: a run of `log.segments` from the oldest on, in their order; or none.

        Called on the reactor's thread, for each log of the topic every `log.retention.check.interval.ms`, and only if
        there are segments; must not block. `now_ms` is the time of day, in milliseconds since 1970. If the active
        segment is named, a new one is begun before it goes.

        The log takes from the answer what it can do: records that are not yet below the high watermark stay. Of
        several policies, each is asked about what the others leave. If this one raises, or names anything but the
        oldest segments in their order, nothing is deleted by it, and that is logged, once for each cause.
        """


class IDeletePolicyFactory(Interface):
    """Makes delete policies: a plugin.

    An instance, which provides `twisted.plugin.IPlugin` too, stands at the top level of a module that lies in a
    directory `pylogbroker/plugins`, without an `__init__.py`, of any directory of Python's path. Settings name it:
    `log.delete.policies` for all topics, `delete.policies` for one.
    """

    name: str = Attribute("What settings call it, made of a-z, 0-9 and -; unlike that of any other.")

    def make(argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        """The policy of a topic with these settings.

        `argument` is what a setting has behind the name and a colon: "3" in `delete.policies=newest-segments:3`; empty
        if it has none. It has no commas. `settings` are the values in force for the topic by their names
        (`retention.ms`), in Kafka's units, and immutable: when they change, a new policy is made.

        Raises ValueError, whose text ends the sentence "... is not accepted; ", if the argument is of no use; then the
        setting is refused to whoever sets it. Called on the reactor's thread, when settings are checked too; must not
        block.
        """
