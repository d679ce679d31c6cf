"""Keys and values of a region, decoded by a schema registry in worker threads.

Batches without content of a registry's serializers stay as they are, and are searched by needles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import attrs

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.conditions import Subject
from pylogbroker.errors import CorruptRecords
from pylogbroker.schemas.framing import Field, FramedContent
from pylogbroker.schemas.limits import JsonBudget
from pylogbroker.web.record_search.batches import PreparedMessages, RegionPart
from pylogbroker.web.schema_store import (
    ENTRIES_MAX,
    JSON_CHARACTERS_MAX,
    LOOKUPS_MAX,
    NOT_ASKED,
    SchemaKey,
    SchemaStore,
    frames_of,
)

_PROBLEMS_MAX: Final = 3
_BATCH_CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""Characters of the JSON of one batch, all of which waits to be searched."""


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
    _lookups_left: int = attrs.field(default=LOOKUPS_MAX, init=False)

    async def decode(self, part: RegionPart) -> None:
        """Replace batches that have encoded content."""
        for place, batch in enumerate(part.batches):
            if batch.is_framed:
                subjects: list[Subject] = []
                keys: dict[SchemaKey, None] = {}
                try:
                    await self._in_thread(_read, chain.from_iterable(batch.runs()), subjects, keys)
                except CorruptRecords as error:
                    part.damages.append(f"A batch of a partition is damaged: {error}")
                await self._load(keys)
                part.batches[place] = PreparedMessages(await self._in_thread(self._decoded, subjects))

    async def _load(self, keys: Iterable[SchemaKey]) -> None:
        """Ask for schemas, as long as the search has not asked for too many; its partitions share that number."""
        missing = self._store.missing(keys)
        if len(missing) > self._lookups_left:
            self._note_first(NOT_ASKED)
        chosen = missing[: self._lookups_left]
        self._lookups_left -= len(chosen)
        await self._store.load(chosen)

    def _decoded(self, subjects: Sequence[Subject]) -> list[Subject]:
        left = _BATCH_CHARACTERS_MAX
        records = []
        for subject in subjects:
            for field, frame in frames_of(subject.key, subject.value, subject.headers).items():
                if left <= 0:
                    self._note_first(
                        "The JSON of a batch is too long: the last of its records were searched as they are."
                    )
                    break
                budget = JsonBudget(min(left, JSON_CHARACTERS_MAX))
                characters_max = budget.left
                subject = self._with_json(subject, field, frame, budget)
                left -= characters_max - budget.left
            records.append(subject)
        return records

    def _with_json(self, subject: Subject, field: Field, frame: FramedContent, budget: JsonBudget) -> Subject:
        decoded = self._store.decoded(self._topic, field, frame, budget)
        if decoded.text is None:
            self._note(decoded.problem)
            return subject
        text = decoded.text.encode()
        if field == "key":
            return DecodedSubject(subject, text, subject.value)
        return DecodedSubject(subject, subject.key, text)

    def _note_first(self, problem: str) -> None:
        """Name what holds for many records, before the reasons of single ones."""
        if problem not in self.problems:
            self.problems.insert(0, problem)

    def _note(self, problem: str) -> None:
        if problem and problem not in self.problems and len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)


def _read(records: Iterator[Subject], subjects: list[Subject], keys: dict[SchemaKey, None]) -> None:
    """Read records, and note the first schemas that they have; raise CorruptRecords."""
    for subject in records:
        subjects.append(subject)
        for frame in frames_of(subject.key, subject.value, subject.headers).values():
            if len(keys) < ENTRIES_MAX:
                keys[frame.schema] = None
