"""Sets of 0.7's messages: offsets are positions, and there are values alone.

Messages inside of a compressed one have positions that nothing can be fetched from. What follows them is where the
compressed one begins, and for the last of them where it ends: who goes on there sees some again, and misses none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pylogbroker.client.messages import MessageSet, Row
from pylogbroker.errors import PylogbrokerError
from pylogbroker.records import Entry
from pylogbroker.records.columns import Piece
from pylogbroker.records.simple import SimpleMessage, messages

_RUN: Final = 500  # messages of a piece


class SimpleMessageSet(MessageSet):
    """As `MessageSet`, of a log's bytes from the position `first_offset` on."""

    def _entries(self) -> Iterator[SimpleMessage]:
        return messages(self.data, self.first_offset, partial=True)

    def _pieces(self) -> Iterator[Piece]:
        piece = Piece()
        coming = self._entries()
        failure: PylogbrokerError | None = None
        while failure is None:
            try:
                message = next(coming, None)
                if message is None:
                    break
                if self._check:
                    message.check()
            except PylogbrokerError as error:
                failure = error
                continue
            if len(piece.entries) == _RUN:
                yield piece
                piece = Piece()
            piece.entries.append(message)
            piece.next_offset = message.next_offset
        if piece.entries:
            yield piece
        if failure is not None:
            raise failure

    def _rows_one_by_one(self, piece: Piece) -> Iterator[Row]:
        for entry in piece.entries:
            yield from self._rows_of(entry)

    def _rows_of(self, entry: Entry) -> Iterator[Row]:
        topic, partition = self.topic, self.partition
        records = list(entry.records())
        for left, record in enumerate(records, 1 - len(records)):
            behind = entry.base_offset if left else entry.next_offset
            kind = record.timestamp_type
            yield topic, partition, record.offset, record.timestamp, kind, None, record.value, (), behind
