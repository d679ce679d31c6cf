"""Counts of the share groups that a broker serves, since its start; its metrics show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from pylogbroker.groups.share.values import Acknowledgement

GROUPS_MAX: Final = 1_000
"""Groups with counts of their own; the others are counted together, without a name."""


@attrs.define(eq=False, repr=False)
class LetterCounts:
    """Dead letters of a group: those stored, and appends of some of them."""

    stored: int = 0
    appends: int = 0
    failed_appends: int = 0


@attrs.define(eq=False, repr=False)
class ShareCounts:
    acknowledged: Counter[int] = attrs.field(factory=Counter)
    """Records by the number of their AcknowledgeType."""
    expired_locks: int = 0
    """Records that a member has neither acknowledged nor renewed in time."""
    letters: dict[str, LetterCounts] = attrs.field(factory=dict)

    def count_acknowledged(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        for acknowledgement in acknowledgements:
            types = acknowledgement.types
            if len(types) == 1:
                self.acknowledged[types[0]] += acknowledgement.last - acknowledgement.first + 1
            else:
                self.acknowledged.update(types)

    def letters_of(self, group_id: str) -> LetterCounts:
        counts = self.letters.get(group_id)
        if counts is None:
            name = group_id if len(self.letters) < GROUPS_MAX else ""
            counts = self.letters.setdefault(name, LetterCounts())
        return counts
