"""Changes of a group that are not in the log yet: which records are to be written, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import attrs

RecordKey = tuple[Any, str]
"""Kind of the record, and its name within the group, such as a member id; empty for the group's own records."""


@attrs.define(eq=False, repr=False)
class RecordedGroup:
    """Group of members that brokers assign. Subclasses say which kinds of records it has, and their orders."""

    kinds_of_members: ClassVar[Collection[Any]]
    order: ClassVar[Mapping[Any, int]]
    removal_order: ClassVar[Mapping[Any, int]]
    """Of tombstones: the metadata of a member come last, since Kafka cannot load a log with another order."""
    _changes: dict[RecordKey, None] = attrs.field(factory=dict, init=False)

    @property
    def is_dead(self) -> bool:
        raise NotImplementedError

    @property
    def members(self) -> Mapping[str, object]:
        raise NotImplementedError

    def take_changes(self) -> dict[RecordKey, None]:
        """Return the keys of what has changed, in the order in which records are written: removed ones come first."""
        changes, self._changes = self._changes, {}
        return dict.fromkeys(sorted(changes, key=self._place))

    def _place(self, change: RecordKey) -> tuple[bool, int]:
        kind, name = change
        is_removed = self.is_dead or (kind in self.kinds_of_members and name not in self.members)
        return not is_removed, (self.removal_order if is_removed else self.order)[kind]

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def put_back(self, changes: Collection[RecordKey]) -> None:
        """Let changes be written again: they were not stored."""
        self._changes.update(dict.fromkeys(changes))

    def _note_member(self, member_id: str) -> None:
        """Let all records of a member be written."""
        for kind in self.kinds_of_members:
            self._changes[kind, member_id] = None
