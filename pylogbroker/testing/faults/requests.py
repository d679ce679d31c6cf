"""Requests that a broker with faults has received."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.testing.faults.criteria import Call
from pylogbroker.wire.messages.produce import ProduceRequest

_REQUESTS_MAX: Final = 10_000
_RECORDS_BYTES_MAX: Final = 64 * 1024 * 1024
WATCHED_MAX: Final = 1000
WATCHED_BYTES_MAX: Final = 8 * 1024 * 1024


@attrs.frozen
class SeenRequest:
    """A request as it was received; `request` is its body, decoded."""

    api: str
    version: int
    client_id: str | None
    principal: str
    broker: int
    connection: int
    """Number of the connection, counted from 1."""
    seconds: float
    """Time of the broker's clock."""
    request: Any
    context: RequestContext = attrs.field(repr=False)

    @classmethod
    def of(cls, call: Call) -> SeenRequest:
        context, connection = call.context, call.connection
        return cls(
            call.api.name,
            context.api_version,
            context.client_id,
            context.principal,
            call.services.node.id if connection is None else connection.broker_id,
            0 if connection is None else connection.number,
            call.services.runtime.clock.seconds(),
            call.request,
            context,
        )


@attrs.define(repr=False)  # it would show thousands of requests
class RequestLog:
    """The last requests: a bounded number of them, with a bounded number of bytes of records."""

    requests_max: int = _REQUESTS_MAX
    records_bytes_max: int = _RECORDS_BYTES_MAX
    _requests: deque[SeenRequest] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    count: int = attrs.field(default=0, init=False)
    """All requests since the start."""

    def add(self, seen: SeenRequest) -> None:
        self.count += 1
        self._requests.append(seen)
        self._bytes += _records_bytes(seen.request)
        while len(self._requests) > self.requests_max or self._has_too_many_bytes:
            self._bytes -= _records_bytes(self._requests.popleft().request)

    @property
    def _has_too_many_bytes(self) -> bool:
        return self._bytes > self.records_bytes_max and len(self._requests) > 1

    def number(self, count: int) -> SeenRequest:
        """Return the request that was the `count`-th, or the first of those that are kept."""
        return self._requests[max(0, count - 1 - (self.count - len(self._requests)))]

    def clear(self) -> None:
        self._requests.clear()
        self._bytes = 0

    def since(self, count: int) -> list[SeenRequest]:
        """Return the requests after the first `count`, as far as they are kept."""
        kept = list(self._requests)
        return kept[max(0, len(kept) - (self.count - count)) :] if self.count > count else []

    def of(self, api: str) -> list[SeenRequest]:
        return [seen for seen in tuple(self._requests) if seen.api == api]

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter(tuple(self._requests))

    def __len__(self) -> int:
        return len(self._requests)

    def __getitem__(self, index: int) -> SeenRequest:
        return self._requests[index]


def summary(requests: Iterable[SeenRequest]) -> str:
    """Return the requests by API: `3 Fetch, 1 Metadata`."""
    counts = Counter(seen.api for seen in requests)
    return ", ".join(f"{count} {api}" for api, count in counts.most_common()) or "no request"


def _records_bytes(request: Any) -> int:
    if not isinstance(request, ProduceRequest):
        return 0
    return sum(len(partition.records or b"") for topic in request.topic_data for partition in topic.partition_data)
