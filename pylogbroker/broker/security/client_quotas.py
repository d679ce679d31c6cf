"""Quotas of this broker's clients: measures what they use, and says how long they are throttled.

    before the handler    nothing
    the handler           Fetch asks whether its answer must be empty; changes of topics take tokens
    its answer            gets the longest throttle time, and the connection is muted for that time (KIP-219)

While no client has a quota, `BrokerQuotas.meters` is None, and requests are handled as if there were no quotas.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from hashlib import sha256
from inspect import isawaitable, iscoroutine
from time import perf_counter
from typing import Any, Final, Generic

import attrs

from pylogbroker.broker.fetch.session import CONSUMER, fetcher_of
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.security.quota_store import QuotaStore
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import ITree
from pylogbroker.security.quotas.entities import QuotaTable
from pylogbroker.security.quotas.keys import CLIENT_KEYS, QuotaKey
from pylogbroker.security.quotas.rates import M, Measures, SampledRate, TokenBucket, Windows

_CLIENTS_MAX: Final = 10_000
"""Clients whose quotas are remembered."""

_ID_LENGTH_MAX: Final = 249
"""Length of the client ids that are remembered: anybody may send long ones, each time another."""

_PRODUCE: Final = 0
_FETCH: Final = 1
_REQUESTS_OF_BROKERS: Final = frozenset({4, 5, 6, 7, 27, 56, 67})
"""APIs that only brokers use: they are never throttled."""

Mute = Callable[[int], None]
Handler = Callable[[Any, RequestContext, Any], Any]


@attrs.define(eq=False, repr=False)
class _Meters(Generic[M]):
    """Measures for one quota; clients that share it share a measure."""

    _key: QuotaKey
    _windows: Windows
    _new: Callable[[Windows], M]
    _table: QuotaTable = attrs.field(factory=QuotaTable, init=False)
    _known: dict[tuple[str, str | None], tuple[float, M] | None] = attrs.field(factory=dict, init=False)
    _measures: Measures[tuple[str, str], M] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._measures = Measures(self._windows, self._new, self._known.clear)

    def set_table(self, table: QuotaTable) -> None:
        self._table = table
        self._known.clear()

    def of(self, context: RequestContext, now_ms: int) -> tuple[float, M] | None:
        """Return the quota of a client and its measure; None without a quota."""
        client = context.principal, context.client_id
        if client in self._known:
            return self._known[client]
        limit = self._table.limit(self._key, context.principal.partition(":")[2], context.client_id or "")
        meter = None
        if limit is not None:
            meter = limit.quota, self._measures.of((limit.user, _shortened(limit.client_id)), now_ms)
        if len(context.client_id or "") > _ID_LENGTH_MAX:
            return meter
        if len(self._known) >= _CLIENTS_MAX:
            self._known.clear()
        self._known[client] = meter
        return meter

    def used(self) -> Iterator[tuple[str, str, float, M]]:
        """Yield user and client id, of which one may be empty, with their quota and what measures its use."""
        seen: set[tuple[str, str]] = set()
        for (principal, client_id), meter in tuple(self._known.items()):
            limit = self._table.limit(self._key, principal.partition(":")[2], client_id or "")
            if meter is not None and limit is not None and (limit.user, limit.client_id) not in seen:
                seen.add((limit.user, limit.client_id))
                quota, measure = meter
                yield limit.user, limit.client_id, quota, measure


def _shortened(client_id: str) -> str:
    """Return a digest that stands for a long client id."""
    return client_id if len(client_id) <= _ID_LENGTH_MAX else sha256(client_id.encode()).hexdigest()


@attrs.define(eq=False, repr=False)
class Throttles:
    """Responses with a throttle time since the start, and the sum of these times."""

    responses: int = 0
    ms: int = 0

    def add(self, ms: int) -> None:
        self.responses += 1
        self.ms += ms


@attrs.frozen
class QuotaUse:
    """Use of a quota; `throttle_ms` is for how long a next request would be throttled now."""

    key: QuotaKey
    user: str
    client_id: str
    per_second: float
    throttle_ms: int


@attrs.define(eq=False, repr=False)
class ClientMeters:
    """Measures of all clients of this broker."""

    _runtime: Runtime
    _windows: Windows
    _rates: dict[QuotaKey, _Meters[SampledRate]]
    _buckets: _Meters[TokenBucket]
    throttles: Throttles = attrs.field(factory=Throttles, init=False)

    @classmethod
    def of(cls, runtime: Runtime, windows: Windows, controller_windows: Windows) -> ClientMeters:
        keys = (QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE, QuotaKey.REQUEST_PERCENTAGE)
        rates = {key: _Meters(key, windows, SampledRate) for key in keys}
        return cls(runtime, windows, rates, _Meters(QuotaKey.CONTROLLER_MUTATION_RATE, controller_windows, TokenBucket))

    def set_table(self, table: QuotaTable) -> None:
        for rates in self._rates.values():
            rates.set_table(table)
        self._buckets.set_table(table)

    def limit(self, context: RequestContext) -> bool:
        """Return whether bytes or time of a client have a quota."""
        now_ms = self._runtime.now_ms()
        return any(rates.of(context, now_ms) is not None for rates in self._rates.values())

    def handle(
        self, handle: Handler, services: Any, context: RequestContext, request: Any, size: int, mute: Mute
    ) -> Any:
        """Handle a request of `size` bytes; its answer has the throttle time for which the connection is muted."""
        key = getattr(request, "api_key", None)  # without one: the answer is that a version is not known
        if key in _REQUESTS_OF_BROKERS or (key == _FETCH and fetcher_of(request) > CONSUMER):
            return handle(services, context, request)
        if key in (_FETCH, _PRODUCE) and not self.limit(context):
            return handle(services, context, request)
        use = _Use(self, context, size if key == _PRODUCE else 0, mute)
        return use.handle(handle, services, request)

    def throttle_ms(self, key: QuotaKey, context: RequestContext, value: float) -> int:
        """Record what a client has used; return for how long it is throttled."""
        now_ms = self._runtime.now_ms()
        meter = self._rates[key].of(context, now_ms)
        if meter is None:
            return 0
        quota, rate = meter
        rate.record(value, now_ms)
        return rate.throttle_ms(quota, now_ms)

    def request_throttle_ms(self, context: RequestContext, seconds: float) -> int:
        """Like `throttle_ms` for the time that a request took, up to one window."""
        return min(self._windows.ms, self.throttle_ms(QuotaKey.REQUEST_PERCENTAGE, context, seconds * 100))

    def fetch_throttle_ms(self, context: RequestContext, size: int) -> int:
        """Return for how long a consumer is throttled that would get `size` bytes; they count if it is not."""
        throttle_ms = self.throttle_ms(QuotaKey.CONSUMER_BYTE_RATE, context, size)
        throttle_ms = max(throttle_ms, self.request_throttle_ms(context, 0.0))
        if throttle_ms:
            self.throttle_ms(QuotaKey.CONSUMER_BYTE_RATE, context, -size)
        return throttle_ms

    def count_fetched(self, context: RequestContext, size: int) -> int:
        """Count bytes that a consumer gets in any case; return for how long it is throttled after them."""
        return self.throttle_ms(QuotaKey.CONSUMER_BYTE_RATE, context, size)

    def fetch_bytes_max(self, context: RequestContext) -> float:
        """Return the bytes that an idle consumer may get at once; more would always be throttled."""
        meter = self._rates[QuotaKey.CONSUMER_BYTE_RATE].of(context, self._runtime.now_ms())
        return float("inf") if meter is None else meter[0] * self._windows.whole_seconds

    def used(self) -> Iterator[QuotaUse]:
        """Yield the use of each quota by the clients that share it."""
        now_ms = self._runtime.now_ms()
        for key, meters in self._rates.items():
            for user, client_id, quota, rate in meters.used():
                throttle_ms = rate.throttle_ms(quota, now_ms)
                yield QuotaUse(key, user, client_id, rate.per_second(now_ms), throttle_ms)

    def mutations(self, context: RequestContext, is_strict: bool) -> LimitedMutations | None:
        meter = self._buckets.of(context, self._runtime.now_ms())
        return None if meter is None else LimitedMutations(self._runtime, *meter, is_strict)


@attrs.define(eq=False, repr=False)
class _Use:
    """Use of one request: time of the reactor's thread, and bytes that it produces."""

    _meters: ClientMeters
    _context: RequestContext
    _produced: int
    _mute: Mute
    _seconds: float = attrs.field(default=0.0, init=False)

    def handle(self, handle: Handler, services: Any, request: Any) -> Any:
        began = perf_counter()
        answer = handle(services, self._context, request)
        self._seconds += perf_counter() - began
        return self._complete_later(answer) if isawaitable(answer) else self._completed(answer)

    async def _complete_later(self, answer: Awaitable[Any]) -> Any:
        return self._completed(await (self._timed(answer) if iscoroutine(answer) else answer))

    @types.coroutine
    def _timed(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a coroutine; add its time on the reactor's thread."""
        result: Any = None
        error: BaseException | None = None
        try:
            while True:
                began = perf_counter()
                try:
                    waiting = work.send(result) if error is None else work.throw(error)
                except StopIteration as end:
                    return end.value
                finally:
                    self._seconds += perf_counter() - began
                result = error = None
                try:
                    result = yield waiting
                except Exception as thrown:
                    error = thrown
        finally:
            work.close()

    def _completed(self, response: Any) -> Any:
        throttle_ms = getattr(response, "throttle_time_ms", 0)  # of Fetch, and of changes of topics
        if self._produced:
            produced_ms = self._meters.throttle_ms(QuotaKey.PRODUCER_BYTE_RATE, self._context, self._produced)
            throttle_ms = max(throttle_ms, produced_ms)
        if response is not None:  # else acks=0: its time does not count
            throttle_ms = max(throttle_ms, self._meters.request_throttle_ms(self._context, self._seconds))
        if throttle_ms:
            self._meters.throttles.add(throttle_ms)
            self._mute(throttle_ms)
            if hasattr(response, "throttle_time_ms"):
                return attrs.evolve(response, throttle_time_ms=throttle_ms)
        return response


@attrs.define(eq=False, repr=False)
class LimitedMutations:
    """Partitions that one request creates or deletes (KIP-599).

    Old requests are throttled afterwards. Those of clients that know the error get it (`is_strict`).
    """

    _runtime: Runtime
    _quota: float
    _bucket: TokenBucket
    _is_strict: bool
    throttle_ms: int = attrs.field(default=0, init=False)

    def take(self, partitions: int) -> None:
        """Count partitions; raise THROTTLING_QUOTA_EXCEEDED if earlier ones have used up the quota."""
        now_ms = self._runtime.now_ms()
        if self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._quota, now_ms)
            if self.throttle_ms:
                code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                raise KafkaError("The throttling quota has been exceeded.", code)
        self._bucket.take(partitions, self._quota, now_ms)
        if not self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._quota, now_ms)


@attrs.define(eq=False, repr=False)
class BrokerQuotas:
    """`meters` is None while no client has a quota."""

    _meters: ClientMeters
    store: QuotaStore = attrs.field(init=False)
    meters: ClientMeters | None = attrs.field(default=None, init=False)

    @classmethod
    def of(cls, config: BrokerConfig, runtime: Runtime, tree: ITree) -> BrokerQuotas:
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds)
        of_controller = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds)
        quotas = cls(ClientMeters.of(runtime, windows, of_controller))
        quotas.store = QuotaStore(tree, runtime, quotas._set_table)
        return quotas

    @property
    def throttles(self) -> Throttles:
        return self._meters.throttles

    def used(self) -> Iterator[QuotaUse]:
        return iter(()) if self.meters is None else self.meters.used()

    async def open(self) -> None:
        await self.store.open()

    def close(self) -> None:
        self.store.close()

    def mutations(self, context: RequestContext, strict_since: int) -> LimitedMutations | None:
        """Return what counts a request's changes; None without a quota."""
        if self.meters is None:
            return None
        return self.meters.mutations(context, context.api_version >= strict_since)

    def _set_table(self, table: QuotaTable) -> None:
        self._meters.set_table(table)
        self.meters = self._meters if table.keys & CLIENT_KEYS else None
