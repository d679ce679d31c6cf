"""Bounds of JSON that is made from content: few bytes may stand for very much JSON."""

from __future__ import annotations

from typing import Final

from pylogbroker.schemas.errors import Undecodable

_CHARACTERS_MAX: Final = 16 * 1024 * 1024
_CHARACTERS_PER_BYTE: Final = 8
"""More than a text or bytes need: a control character has six in JSON, and Base64 less."""


class JsonBudget:
    """Counts the characters of JSON while they are made; every value has some, so it bounds the steps, too."""

    __slots__ = ("_characters_max", "left")

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self.left = characters_max

    @classmethod
    def of(cls, content: bytes) -> JsonBudget:
        """Return the budget of some content where nothing else limits its JSON."""
        return cls(_CHARACTERS_MAX + _CHARACTERS_PER_BYTE * len(content))

    def spend(self, characters: int) -> None:
        """Raise Undecodable once there are too many."""
        self.left -= characters
        if self.left < 0:
            raise Undecodable(f"its JSON would have more than {self._characters_max:,} characters")
