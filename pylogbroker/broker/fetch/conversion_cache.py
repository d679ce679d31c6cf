"""Records converted for one old client, kept for others."""

from __future__ import annotations

import threading
from typing import Final

import attrs

_CONVERSION_CACHE_BYTES_MAX: Final = 32 << 20


@attrs.frozen
class ConvertedPiece:
    """Consecutive entries as v2 batches; `length` is their size in the file."""

    records: bytes
    length: int


@attrs.define(eq=False, repr=False)
class ConversionCache:
    """Converted pieces by place, at most `limit` bytes; drops the least recently used first.

    A place is an open file's number and a position, whose bytes do not change while the handle lives. Any thread may
    call.
    """

    limit: int = _CONVERSION_CACHE_BYTES_MAX
    size: int = attrs.field(default=0, init=False)
    _pieces: dict[tuple[int, int], ConvertedPiece] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def find(self, place: tuple[int, int], most: int) -> ConvertedPiece | None:
        """Return the piece at `place` unless it is longer than `most`, in the file."""
        with self._lock:
            piece = self._pieces.get(place)
            if piece is None or piece.length > most:
                return None
            self._pieces[place] = self._pieces.pop(place)
            return piece

    def keep(self, place: tuple[int, int], piece: ConvertedPiece) -> None:
        with self._lock:
            former = self._pieces.get(place)
            if len(piece.records) > self.limit or (former is not None and former.length >= piece.length):
                return
            self._drop(place)
            self._pieces[place] = piece
            self.size += len(piece.records)
            while self.size > self.limit:
                self._drop(next(iter(self._pieces)))

    def _drop(self, place: tuple[int, int]) -> None:
        piece = self._pieces.pop(place, None)
        if piece is not None:
            self.size -= len(piece.records)
