"""New records of a topic, sent to a viewer as they come: server-sent events.

    id: 0:17,1:4                    offsets to go on from, by partition
    event: records
    data: {"partition": 0, "skipped": 0, "records": [...]}

    event: ended                    there will be no more
    data: {"error": "..."}

A viewer never slows producers. It looks for new records a few times a second, and reads no more than a person can; a
worker thread decodes them. There is no queue, since the log is one: beyond a number of records that wait, the oldest
are skipped and counted. A viewer that does not take its events gets none meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Final, TypedDict

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import deferLater
from twisted.web.server import Request
from zope.interface import implementer

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.parameters import Index, Name, Offset, Search, Time
from pylogbroker.web.partition_logs import PartitionLog, open_logs
from pylogbroker.web.record_rows import Format, RecordRegion, RecordRow, Wanted, decode
from pylogbroker.web.record_views import Beginning, Last, first_offset
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import BadValue, from_text
from pylogbroker.web.visitors import Visitor

ROUND_SECONDS: Final = 0.25
_REMOTE_ROUND_SECONDS: Final = 1.0
"""Between requests to other brokers."""
_SKIPPING_ROUND_SECONDS: Final = 1.0
"""After a round that skipped records."""
_RECORDS_PER_SECOND: Final = 20
_BURST_RECORDS_MAX: Final = 100
"""Records that are sent at once after a pause."""
WAITING_RECORDS_MAX: Final = 300
"""Records of a partition that wait for the viewer; older ones are skipped."""
PARTITIONS_MAX: Final = 64
LIFETIME_SECONDS: Final = 600
"""Then the browser asks again, and shows its password."""
_PASSING: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NETWORK_EXCEPTION,
)
"""Errors after which the viewer only waits: a leader moves."""
_REGION_BYTES: Final = 64 * 1024
_SEARCHED_BYTES: Final = 256 * 1024
_SILENCE_SECONDS_MAX: Final = 15  # proxies close silent connections


class NewRecords(TypedDict):
    """Data of an event named records, whose id is where to go on."""

    partition: int
    skipped: int
    records: list[RecordRow]


class Ended(TypedDict):
    """Data of an event named ended, the last one."""

    error: str


async def live(
    visitor: Visitor,
    request: Request,
    topic: Name,
    partition: Annotated[Index | None, f"by default all, up to {PARTITIONS_MAX}"] = None,
    offset: Offset | None = None,
    time: Time = "",
    last: Last = 0,
    after: Annotated[str, "id of the last event that was seen, as the header Last-Event-ID has it"] = "",
    search: Search = "",
    format: Format = "auto",
) -> None:
    """Send new records as server-sent events."""
    offsets = _parsed_id(request.getHeader("last-event-id") or after)
    if not offsets:
        logs = await open_logs(visitor, topic, _indexes(visitor, topic, partition))
        beginning = Beginning(offset, time, last or 0)
        offsets = {log.index: await first_offset(visitor, log, beginning) for log in logs}
    await LiveView(visitor, request, topic, offsets, search, format).run()


@implementer(IPushProducer)
@attrs.define(eq=False, repr=False)
class LiveView:
    """Sends events to one viewer until the connection, or its lifetime, ends."""

    _visitor: Visitor
    _request: Request
    _topic: str
    _offsets: dict[int, int]
    _search: str
    _format: str
    _resumed: Deferred[None] | None = attrs.field(default=None, init=False)
    _allowance: float = attrs.field(default=_BURST_RECORDS_MAX, init=False)
    _refilled: float = attrs.field(default=0.0, init=False)
    _spoke: float = attrs.field(default=0.0, init=False)
    _asked: float = attrs.field(default=0.0, init=False)
    """When other brokers were asked."""

    async def run(self) -> None:
        """Write the response, and finish it."""
        request, clock = self._request, self._visitor.services.runtime.clock
        request.setHeader(b"content-type", b"text/event-stream")
        request.registerProducer(self, True)
        end = clock.seconds() + LIFETIME_SECONDS
        try:
            self._write(b"retry: 1000\n\n")
            while clock.seconds() < end:
                if self._resumed is not None:
                    await self._resumed
                has_skipped = await self._round()
                await deferLater(clock, _SKIPPING_ROUND_SECONDS if has_skipped else ROUND_SECONDS, lambda: None)
        except PylogbrokerError as error:
            self._write(_event("ended", json.dumps({"error": str(error)}).encode()))
        request.unregisterProducer()
        request.finish()

    async def _round(self) -> bool:
        """Send what is new; return whether records were skipped."""
        now = self._visitor.services.runtime.clock.seconds()
        self._allowance = min(_BURST_RECORDS_MAX, self._allowance + _RECORDS_PER_SECOND * (now - self._refilled))
        self._refilled = now
        has_skipped = False
        try:
            has_skipped = await self._send_new(now)
        except KafkaError as error:
            if error.code not in _PASSING:
                raise
        if now - self._spoke > _SILENCE_SECONDS_MAX:
            self._write(b":\n\n")
        return has_skipped

    async def _send_new(self, now: float) -> bool:
        logs = await self._logs(now)
        with_new = [log for log in logs if self._offsets[log.index] < log.high_watermark]
        share = max(1, int(self._allowance) // max(1, len(with_new)))
        has_skipped = False
        for log in with_new:
            if self._allowance >= 1:
                has_skipped |= await self._send_records(log, share)
        return has_skipped

    async def _logs(self, now: float) -> list[PartitionLog]:
        """Return the logs of partitions here, and now and then of those that other brokers lead; raise KafkaError."""
        services = self._visitor.services
        services.metadata.require_topic(self._topic)
        is_due = now - self._asked >= _REMOTE_ROUND_SECONDS
        indexes = [index for index in self._offsets if is_due or (self._topic, index) in services.partitions.led]
        if is_due:
            self._asked = now
        return await open_logs(self._visitor, self._topic, indexes)

    async def _send_records(self, log: PartitionLog, count_max: int) -> bool:
        """Send new records of a partition; return whether some were skipped."""
        index, upto = log.index, log.high_watermark
        after = self._offsets[index]
        offset = max(after, upto - WAITING_RECORDS_MAX, log.log_start_offset)
        services = self._visitor.services
        region = await log.region_at(offset, upto, _SEARCHED_BYTES if self._search else _REGION_BYTES)
        if region is None:
            self._offsets[index] = upto
            return False
        selection = Wanted(after, count_max, upto, self._search, self._format)
        in_thread = services.runtime.in_reading_thread
        count, skipped, next_offset, data = await in_thread(_decoded, region, selection, index, offset > after)
        self._offsets[index] = next_offset
        if count or skipped:
            self._allowance -= count
            self._write(
                _event("records", data, ",".join(f"{partition}:{at}" for partition, at in self._offsets.items()))
            )
        return bool(skipped)

    def _write(self, data: bytes) -> None:
        self._spoke = self._visitor.services.runtime.clock.seconds()
        self._request.write(data)

    def pauseProducing(self) -> None:
        if self._resumed is None:
            self._resumed = Deferred()

    def resumeProducing(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.callback(None)

    def stopProducing(self) -> None:
        """Do nothing: the end of the connection cancels `run`."""


def _indexes(visitor: Visitor, topic: str, index: int | None) -> Sequence[int]:
    """Return the partition that is asked for, or those of the topic that have a leader."""
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    if index is not None:
        return [index]
    partitions = visitor.services.metadata.require_topic(topic).partitions
    led = sorted(index for index, state in partitions.items() if state.leader != NO_LEADER)
    if not led:
        raise KafkaError(f"no partition of {topic} has a leader now", ErrorCode.LEADER_NOT_AVAILABLE)
    if len(led) > PARTITIONS_MAX:
        raise BadRequest(f"partition is missing: {topic} has more than {PARTITIONS_MAX}")
    return led


def _decoded(region: RecordRegion, selection: Wanted, partition: int, skips: bool) -> tuple[int, int, int, bytes]:
    """Return the numbers of records and skipped ones, the next offset, and the data of an event. Blocks.

    What is skipped ends before the region's first batch: to find a record within a batch takes long.
    """
    decoded = decode(region, selection)
    first = decoded.next_offset if decoded.first_offset is None else decoded.first_offset
    skipped = first - selection.offset if skips else 0
    data = json.dumps({"partition": partition, "skipped": skipped, "records": decoded.rows}, separators=(",", ":"))
    return len(decoded.rows), skipped, decoded.next_offset, data.encode()


def _event(kind: str, data: bytes, identity: str = "") -> bytes:
    """Return an event, whose data have no line break: JSON escapes them."""
    head = f"id: {identity}\n" if identity else ""
    return f"{head}event: {kind}\ndata: ".encode() + data + b"\n\n"


def _parsed_id(text: str) -> dict[int, int]:
    """Return offsets by partition of an event's id; raise BadRequest."""
    pairs = [pair.partition(":") for pair in text.split(",") if pair]
    if len(pairs) > PARTITIONS_MAX:
        raise BadRequest(f"after has more than {PARTITIONS_MAX} partitions")
    try:
        return {from_text(Offset, left, "after"): from_text(Offset, right, "after") for left, _, right in pairs}
    except BadValue as error:
        raise BadRequest(str(error)) from None
