"""Records that a search selects: by a condition, a text, and a range of time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import attrs

from pylogbroker.conditions import Needles, RecordCondition, Subject, text_needles
from pylogbroker.conditions.subject import text_of


@attrs.frozen(slots=False)
class Selection:
    """`text` may be in key, value or headers, whatever the case of letters; times are milliseconds, -1 for any."""

    condition: RecordCondition | None = None
    text: str = ""
    since_ms: int = -1
    until_ms: int = -1

    @cached_property
    def folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def needles(self) -> Needles | None:
        """Needles of the condition or the text, whichever are rarer; None if any record may be selected."""
        of_text = text_needles(self.text) if self.text else None
        of_condition = self.condition.needles if self.condition is not None else None
        both = [needles for needles in (of_text, of_condition) if needles is not None]
        return max(both, key=lambda needles: needles.rarity, default=None)

    @property
    def is_everything(self) -> bool:
        return self.condition is None and not self.text and self.since_ms < 0 and self.until_ms < 0

    @cached_property
    def has(self) -> Callable[[Subject], bool]:
        """Test of one record; the condition's own, if that is all."""
        if self.condition is not None and not self.text and self.since_ms < 0 and self.until_ms < 0:
            return self.condition.is_met_by
        return self._has

    def _has(self, record: Subject) -> bool:
        if record.time < self.since_ms or 0 <= self.until_ms <= record.time:
            return False
        if self.condition is not None and not self.condition.is_met_by(record):
            return False
        return not self.text or self._has_text(record)

    def _has_text(self, record: Subject) -> bool:
        folded = self.folded
        if any(folded in (text_of(content) or "").casefold() for content in (record.key, record.value)):
            return True
        return any(
            folded in name.casefold() or folded in (text_of(content) or "").casefold()
            for name, content in record.headers
        )
