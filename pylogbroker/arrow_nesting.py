"""Nesting of JSON that Arrow is to read: its reader recurses, and crashes in values that are nested deeply enough."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

NESTING_MAX: Final = 500
"""Levels that Arrow certainly reads. It crashes above 5,000, with the stacks that threads have by default."""
_BREAK: Final = b"\xff"  # not within UTF-8
_NO_OPENINGS: Final = bytes(set(range(256)) - set(b"[{" + _BREAK))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS: Final = {bracket: 1 if bracket in b"[{" else -1 for bracket in b"[]{}"}


def is_nested_too_deeply(texts: pa.Array) -> bool:
    """Return whether a text of JSON exceeds NESTING_MAX. The texts are UTF-8, as bytes, and may be nulls.

    Few texts are that long, and fewer have so many brackets that strings have to be left out.
    """
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= NESTING_MAX:
        return False
    whole = pc.fill_null(texts, b"")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(whole)], pa.int32()), whole), _BREAK)[0].as_py()
    openings = joined.translate(None, _NO_OPENINGS)
    return any(
        len(own) > NESTING_MAX and _levels_exceed(texts[index].as_py())
        for index, own in enumerate(openings.split(_BREAK))
    )


def _levels_exceed(text: bytes) -> bool:
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    return any(depth > NESTING_MAX for depth in accumulate(map(_STEPS.__getitem__, brackets)))
