"""Metrics that clients push to plugins of the broker (KIP-714).

A client asks for the subscription, which all clients share: what any receiver wants. Then it pushes its metrics every
interval, with the id of the subscription.

    request                             error
    ---------------------------------   -------------------------
    asks again within the interval      THROTTLING_QUOTA_EXCEEDED, unless its last push was rejected
    pushes without an id of its own     INVALID_REQUEST
    pushes again after its last push    INVALID_REQUEST
    pushes again within the interval    THROTTLING_QUOTA_EXCEEDED, unless it is the last push
    of another subscription             UNKNOWN_SUBSCRIPTION_ID
    of another codec                    UNSUPPORTED_COMPRESSION_TYPE
    too large                           TELEMETRY_TOO_LARGE
    cannot be decompressed              INVALID_RECORD

A broker knows nothing of clients that pushed to another one, or before it started; their first push may come at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4
from zlib import crc32

import attrs
from twisted.logger import Logger

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import CorruptRecords, ErrorCode, KafkaError
from pylogbroker.interfaces import ClientTelemetry, IClientTelemetryReceiver
from pylogbroker.records import Codec
from pylogbroker.records.compression import decompress
from pylogbroker.wire.errors import WireError
from pylogbroker.wire.schema import NO_ID

if TYPE_CHECKING:
    from pylogbroker.wire.messages.push_telemetry import PushTelemetryRequest

ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 100, 3_600_000
_INSTANCES_MAX: Final = 16_384
_RATIO_MAX: Final = 16  # of decompressed to compressed bytes at most
_REPAIRABLE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_LONG_AGO_MS: Final = -(1 << 62)

log = Logger()


def telemetry_problem(receiver: IClientTelemetryReceiver) -> str:
    """Return why the attributes of a receiver are not usable; empty if they are."""
    prefixes, interval_ms = receiver.metric_prefixes, receiver.interval_ms
    if isinstance(prefixes, str) or not all(isinstance(prefix, str) for prefix in prefixes):
        return f"its metric_prefixes are {prefixes!r}; expected a tuple of texts"
    if type(interval_ms) is not int or not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        return f"its interval_ms is {interval_ms!r}; expected {_INTERVAL_MS_MIN} to {_INTERVAL_MS_MAX}"
    return ""


@attrs.frozen
class TelemetrySubscription:
    id: int
    interval_ms: int
    metric_prefixes: tuple[str, ...]


@attrs.define(eq=False, repr=False)
class _Instance:
    """Times of the last requests that were accepted."""

    asked_ms: int = _LONG_AGO_MS
    pushed_ms: int = _LONG_AGO_MS
    error: ErrorCode = ErrorCode.NONE
    may_push: bool = True  # at once
    is_over: bool = False


@attrs.define(eq=False, repr=False)
class ClientTelemetryService:
    """Subscriptions and pushes of all clients of a broker."""

    _receivers: Sequence[IClientTelemetryReceiver]
    bytes_max: int
    _runtime: Runtime
    _instances: OrderedDict[UUID, _Instance] = attrs.field(factory=OrderedDict, init=False)
    _prefixes: tuple[str, ...] = attrs.field(init=False)
    _interval_ms: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        prefixes = {prefix for receiver in self._receivers for prefix in receiver.metric_prefixes}
        self._prefixes = ("",) if "" in prefixes else tuple(sorted(prefixes))
        self._interval_ms = min((receiver.interval_ms for receiver in self._receivers), default=_INTERVAL_MS_MAX)

    @property
    def is_on(self) -> bool:
        return bool(self._receivers)

    def subscribe(self, instance_id: UUID) -> tuple[UUID, TelemetrySubscription]:
        """Return the id of a client, a new one for NO_ID, and what it is to push; raise KafkaError."""
        instance_id = uuid4() if instance_id == NO_ID else instance_id
        instance, now_ms = self._instance(instance_id), self._runtime.now_ms()
        subscription = self.subscription(instance_id)
        last_ms = max(instance.asked_ms, instance.pushed_ms)
        if instance.error not in _REPAIRABLE and now_ms - last_ms < subscription.interval_ms:
            raise KafkaError("the client asks too often", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.asked_ms, instance.error, instance.may_push = now_ms, ErrorCode.NONE, True
        return instance_id, subscription

    def subscription(self, instance_id: UUID) -> TelemetrySubscription:
        checksum = crc32(repr((self._prefixes, self._interval_ms)).encode() + instance_id.bytes)
        return TelemetrySubscription(checksum - (1 << 31), self._interval_ms, self._prefixes)

    async def push(self, context: RequestContext, request: PushTelemetryRequest) -> None:
        """Give the metrics to the receivers; raise KafkaError if they are rejected."""
        if request.client_instance_id == NO_ID:
            raise KafkaError("the client has no instance id", ErrorCode.INVALID_REQUEST)
        instance = self._instance(request.client_instance_id)
        instance.error = self._problem(instance, request)
        if instance.error:
            raise KafkaError("the metrics are rejected", instance.error)
        instance.pushed_ms, instance.is_over, instance.may_push = self._runtime.now_ms(), request.terminating, False
        if request.metrics:
            instance.error = await self._runtime.in_thread(self._deliver, context, request, instance.pushed_ms)
        if instance.error:
            raise KafkaError("the metrics cannot be decompressed", instance.error)

    def _problem(self, instance: _Instance, request: PushTelemetryRequest) -> ErrorCode:
        subscription = self.subscription(request.client_instance_id)
        since_ms = self._runtime.now_ms() - instance.pushed_ms
        if instance.is_over:
            return ErrorCode.INVALID_REQUEST
        if not (instance.may_push or request.terminating or since_ms >= subscription.interval_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != subscription.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in (Codec.NONE, *ACCEPTED_CODECS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > self.bytes_max else ErrorCode.NONE

    def _deliver(self, context: RequestContext, request: PushTelemetryRequest, now_ms: int) -> ErrorCode:
        """Decompress the metrics, and call each receiver. Runs in a worker thread."""
        try:
            metrics = decompress(Codec(request.compression_type), request.metrics, limit=_RATIO_MAX * self.bytes_max)
        except (CorruptRecords, WireError):
            return ErrorCode.INVALID_RECORD
        telemetry = ClientTelemetry(
            request.client_instance_id,
            context.client_id or "",
            context.caller.software,
            context.client_host,
            context.principal,
            request.terminating,
            now_ms,
            metrics,
        )
        for receiver in self._receivers:
            try:
                receiver.receive(telemetry)
            except Exception as error:
                if self._runtime.log_rate_limit.is_due(f"telemetry {receiver.name}", now_ms):
                    log.error(
                        "the client telemetry receiver {name} failed with metrics of client {client!r} at {host}: "
                        "{why!r}",
                        name=receiver.name,
                        client=telemetry.client_id,
                        host=telemetry.host,
                        why=error,
                    )
        return ErrorCode.NONE

    def _instance(self, instance_id: UUID) -> _Instance:
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = _Instance()
            if len(self._instances) > _INSTANCES_MAX:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        return instance
