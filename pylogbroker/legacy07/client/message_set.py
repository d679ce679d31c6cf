"""Message sets of Kafka 0.7: offsets are byte positions, messages have only values.

A fetch cannot begin inside a compressed message. So an inner message's `next_offset` is the compressed one's position,
the last one's its end: continuing there repeats some messages and loses none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pylogbroker.client.messages import MessageSet, Row
from pylogbroker.errors import PylogbrokerError
from pylogbroker.legacy07.records.messages import Legacy07Message, messages
from pylogbroker.records import LogEntry
from pylogbroker.records.columnar import EntryGroup

_RUN: Final = 500


class Legacy07MessageSet(MessageSet):
    """Messages of a 0.7 log from `first_offset` on."""

    def _entries(self) -> Iterator[Legacy07Message]:
        return messages(self.data, self.first_offset, partial=True)

    def _groups(self) -> Iterator[EntryGroup]:
        group = EntryGroup()
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
            if len(group.entries) == _RUN:
                yield group
                group = EntryGroup()
            group.entries.append(message)
            group.next_offset = message.next_offset
        if group.entries:
            yield group
        if failure is not None:
            raise failure

    def _rows_one_by_one(self, group: EntryGroup) -> Iterator[Row]:
        for entry in group.entries:
            yield from self._rows_of(entry)

    def _rows_of(self, entry: LogEntry) -> Iterator[Row]:
        topic, partition = self.topic, self.partition
        records = list(entry.records())
        for left, record in enumerate(records, 1 - len(records)):
            next_offset = entry.base_offset if left else entry.next_offset
            kind = record.timestamp_type
            yield topic, partition, record.offset, record.timestamp, kind, None, record.value, (), next_offset
