"""Batches: one partition's records as columns, with their completions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from pylogbroker.client.partition_queue import ANONYMOUS, PartitionQueue, ProducerIdentity
from pylogbroker.client.producer.delivery import DeliveryReport, Results
from pylogbroker.client.producer.model import RecordMetadata
from pylogbroker.interfaces import Event
from pylogbroker.records import Header


class RecordCompletion(Protocol):
    """Receiver of a record's result: a Deferred or an `EventCompletion`."""

    def callback(self, result: Any) -> object: ...

    def errback(self, fail: Any) -> object: ...


@attrs.define(eq=False, repr=False)
class Collector:
    """Results of records sent together; calls `done` with all."""

    results: list[RecordMetadata | BaseException]
    done: Callable[[list[RecordMetadata | BaseException]], object]
    missing: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.missing = len(self.results)

    def put(self, places: Sequence[int], results: Sequence[RecordMetadata | BaseException]) -> None:
        if isinstance(places, range):
            self.results[places.start : places.stop] = results
        else:
            for place, result in zip(places, results, strict=True):
                self.results[place] = result
        self.missing -= len(results)
        if not self.missing:
            self.done(self.results)


@attrs.frozen
class Span:
    """Records of a batch from `start` on; results belong at `places` of a collector."""

    start: int
    places: Sequence[int]
    collector: Collector

    def split(self, at: int) -> tuple[Span | None, Span | None]:
        """Split; each part counts from its own batch's start."""
        cut = min(max(at - self.start, 0), len(self.places))
        before = Span(self.start, self.places[:cut], self.collector) if cut else None
        start = max(self.start - at, 0)
        behind = Span(start, self.places[cut:], self.collector) if cut < len(self.places) else None
        return before, behind


@attrs.define(eq=False, repr=False)
class Batch:
    """Records for one partition.

    Each record has an entry in `completions`, by its index, or is covered by a span or by `report`. `keys` and
    `headers` are None while no record has any.
    """

    created: float
    deadline: float
    due: float
    values: list[bytes | None] = attrs.Factory(list)
    timestamps: list[int] = attrs.Factory(list)
    completions: dict[int, RecordCompletion] = attrs.Factory(dict)
    keys: list[bytes | None] | None = None
    headers: list[tuple[Header, ...]] | None = None
    events: list[Event] | None = None
    spans: list[Span] = attrs.Factory(list)
    report: DeliveryReport | None = None
    place: int = 0  # of the first record in `report`
    size: int = 0  # upper bound of uncompressed bytes
    position: int = -1
    identity: ProducerIdentity = ANONYMOUS
    attempts: int = 0
    outcome_unknown: bool = False
    rejected: bool = False
    sent_at: float = 0.0

    @property
    def count(self) -> int:
        return len(self.values)

    def with_key(self, key: bytes | None) -> None:
        self.keys = [None] * len(self.values)
        self.keys.append(key)

    def with_headers(self, headers: tuple[Header, ...]) -> None:
        self.headers = [()] * len(self.values)
        self.headers.append(headers)

    def succeed(self, results: Sequence[RecordMetadata]) -> None:
        for index, completion in self.completions.items():
            completion.callback(results[index])
        self._settle(results)

    def fail(self, error: BaseException) -> None:
        self.fail_each([error] * len(self.values))

    def fail_each(self, errors: Sequence[BaseException]) -> None:
        for index, completion in self.completions.items():
            completion.errback(errors[index])
        self._settle(errors)

    def _settle(self, results: Results) -> None:
        for span in self.spans:
            span.collector.put(span.places, results[span.start : span.start + len(span.places)])
        if self.report is not None:
            others = len(self.completions) + sum(len(span.places) for span in self.spans)
            self.report.put(self.place, results, self.count - others)

    def halves(self) -> tuple[Batch, Batch]:
        half = self.count // 2
        parts = [span.split(half) for span in self.spans]
        return (
            self._part(slice(half), self.position, (before for before, _ in parts)),
            self._part(slice(half, None), self.position + half, (behind for _, behind in parts)),
        )

    def _part(self, which: slice, position: int, spans: Iterable[Span | None]) -> Batch:
        return attrs.evolve(
            self,
            values=self.values[which],
            timestamps=self.timestamps[which],
            completions={
                place: self.completions[index]
                for place, index in enumerate(range(self.count)[which])
                if index in self.completions
            },
            keys=None if self.keys is None else self.keys[which],
            headers=None if self.headers is None else self.headers[which],
            events=None if self.events is None else self.events[which],
            spans=[span for span in spans if span is not None],
            size=self.size * len(self.values[which]) // self.count,
            position=position,
            place=self.place + (which.start or 0),
        )


BatchQueue: TypeAlias = PartitionQueue[Batch]
