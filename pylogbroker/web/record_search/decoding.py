"""Keys and values of a region, decoded by a schema registry in worker threads.

Batches without content of a registry's serializers stay as they are, and are searched by needles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.conditions import Subject
from pylogbroker.errors import CorruptRecords
from pylogbroker.web.record_search.batches import PreparedMessages, RegionPart
from pylogbroker.web.schema_store import SchemaKey, SchemaStore, frames_of

_PROBLEMS_MAX: Final = 3


class DecodedSubject(Subject):
    """Record with JSON in place of encoded content; its size is that of the log."""

    __slots__ = ("_stored_size",)

    def __init__(self, stored: Subject, key: bytes | None, value: bytes | None) -> None:
        super().__init__(stored.partition, stored.offset, stored.time, key, value, stored.headers)
        self._stored_size = stored.size

    @property
    def size(self) -> int:
        return self._stored_size


@attrs.define(eq=False, repr=False)
class RegionDecoder:
    """Decodes what a search looks at; `problems` name each reason once why content is not decoded."""

    _store: SchemaStore
    _topic: str
    _in_thread: InThread
    problems: list[str] = attrs.field(factory=list, init=False)

    async def decode(self, part: RegionPart) -> None:
        """Replace batches that have encoded content."""
        for place, batch in enumerate(part.batches):
            if batch.is_framed:
                subjects: list[Subject] = []
                keys: set[SchemaKey] = set()
                try:
                    await self._in_thread(_read, batch.records(), subjects, keys)
                except CorruptRecords as error:
                    part.damages.append(f"A batch of a partition is damaged: {error}")
                await self._store.load(keys)
                part.batches[place] = PreparedMessages(await self._in_thread(self._decoded, subjects))

    def _decoded(self, subjects: Sequence[Subject]) -> list[Subject]:
        return [self._decoded_record(subject) for subject in subjects]

    def _decoded_record(self, subject: Subject) -> Subject:
        frames = frames_of(subject.key, subject.value, subject.headers)
        if not frames:
            return subject
        contents = {"key": subject.key, "value": subject.value}
        for field, frame in frames.items():
            decoded = self._store.decoded(self._topic, field, frame)
            if decoded.text is not None:
                contents[field] = decoded.text.encode()
            elif len(self.problems) < _PROBLEMS_MAX and decoded.problem and decoded.problem not in self.problems:
                self.problems.append(decoded.problem)
        return DecodedSubject(subject, contents["key"], contents["value"])


def _read(records: Iterator[Subject], subjects: list[Subject], keys: set[SchemaKey]) -> None:
    """Read records, and note which schemas they have; raise CorruptRecords."""
    for subject in records:
        subjects.append(subject)
        keys.update(frame.schema for frame in frames_of(subject.key, subject.value, subject.headers).values())
