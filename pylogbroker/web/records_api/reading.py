"""GET /api/topics/T/records: committed records, from a place on, up to a place, or as they come.

    {"topic": "T", "records": [...], "next": "0:18,1:4", "at_end": true}

`next` is the `from` of the following request; `at_end` says that there were no more records. With `wait`, a request
that finds none waits for the first. `Accept: application/x-ndjson` gets the records as lines, and the rest in the last
line. `Accept: text/event-stream` and WebSockets follow the topic instead (`followers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NotRequired, TypedDict, Unpack

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.web.parameters import Index, Name
from pylogbroker.web.records_api.calls import HttpCall, finish, json_line
from pylogbroker.web.records_api.fetching import MemberForm, PieceSelection, first_offset, read_piece
from pylogbroker.web.records_api.followers import follow, wants_to_follow
from pylogbroker.web.records_api.group_offsets import committed_positions
from pylogbroker.web.records_api.json_records import Format
from pylogbroker.web.records_api.news import PASSING, News, sleep
from pylogbroker.web.records_api.positions import (
    EARLIEST,
    LATEST,
    PlaceText,
    chosen_partitions,
    has_others,
    led_partitions,
    positions_text,
    resolve,
)
from pylogbroker.web.records_api.schema_choices import SchemaOfContent
from pylogbroker.web.records_api.schema_encoding import NO_REGISTRY
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.routes import JSON, NDJSON
from pylogbroker.web.router.values import NUMBER_MAX, Capped
from pylogbroker.web.visitors import Visitor

LIMIT_MAX: Final = 10_000
_LIMIT: Final = 500
ANSWER_CHARACTERS_MAX: Final = 1024 * 1024
"""Characters of an answer, but for its last record."""
WAIT_SECONDS_MAX: Final = 60.0


class CommittedHeader(TypedDict):
    """Header of a record."""

    name: str
    value: NotRequired[str | None]
    value_base64: NotRequired[str]


class CommittedRecord(TypedDict):
    """Record as it can be written again."""

    partition: int
    offset: int
    timestamp: int
    key: NotRequired[Any]
    key_base64: NotRequired[str]
    key_schema: NotRequired[SchemaOfContent]
    key_problem: NotRequired[str]
    value: NotRequired[Any]
    value_base64: NotRequired[str]
    value_schema: NotRequired[SchemaOfContent]
    value_problem: NotRequired[str]
    headers: list[CommittedHeader]


class ReadRecords(TypedDict):
    """Records, and where to go on."""

    topic: str
    records: list[CommittedRecord]
    next: Annotated[str, "from of the following request"]
    at_end: Annotated[bool, "there were no more records"]


Wait = Annotated[float, f"seconds to wait for the first record, {WAIT_SECONDS_MAX:.0f} at most"]
GroupName = Annotated[str, "begin at the committed offsets of this group, and where it has none at from"]


_Begin = TypedDict("_Begin", {"from": Annotated[PlaceText, "begin"]}, total=False)  # a keyword of Python


async def read_records(
    call: HttpCall,
    topic: Name,
    partition: Annotated[Index | None, "by default all"] = None,
    to: Annotated[PlaceText, "end, which is not read any more"] = "",
    limit: Annotated[int, Capped(LIMIT_MAX), f"at most so many records, {LIMIT_MAX} at most"] = _LIMIT,
    wait: Wait = 0.0,
    group: GroupName = "",
    format: Annotated[Format, "of keys and values: auto, all as text or base64, or decoded by schema"] = "auto",
    **begin_fields: Unpack[_Begin],
) -> None:
    """Return committed records from a place on; with Accept: text/event-stream, or as a WebSocket, follow the topic."""
    visitor = call.visitor
    form = _form(visitor, format)
    follows = wants_to_follow(call.request)
    indexes = chosen_partitions(visitor, topic, partition)
    begin = begin_fields.get("from", "") or (LATEST if follows and not group else EARLIEST)
    if follows and (resumed := call.header("last-event-id")):
        begin, group = resumed, ""  # what the group has committed is older
    positions = await resolve(visitor, topic, indexes, begin, "from")
    has_all = partition is None and has_others(begin)
    if has_all and (added := [index for index in indexes if index not in positions]):
        positions = {**positions, **await resolve(visitor, topic, added, EARLIEST, "from")}
    if group:
        committed = await committed_positions(visitor, group, topic)
        positions = {index: committed.get(index, offset) for index, offset in positions.items()}
    if follows:
        if to or wait:
            raise BadRequest("a request that follows a topic has no end: leave to and wait out")
        await follow(call, topic, positions, form, is_new=begin == LATEST and not group, has_all=has_all)
        return
    if not 0 <= wait <= WAIT_SECONDS_MAX:
        raise BadRequest(f"wait must be 0 to {WAIT_SECONDS_MAX:.0f} seconds, not {wait:g}", "wait")
    if limit < 1:
        raise BadRequest("limit must be at least 1", "limit")
    ends = dict.fromkeys(positions, NUMBER_MAX)
    if to:
        named = await resolve(visitor, topic, [*positions], to, "to")
        ends = {index: named.get(index, positions[index]) for index in positions}
    reading = _Reading(call, topic, dict(positions), ends, limit, form, has_all, grows=has_all and not to)
    await reading.run(wait)
    await reading.answer()


def _form(visitor: Visitor, format: Format) -> MemberForm:
    """Return the form of keys and values; raise BadRequest if there is nothing that could decode them."""
    if format != "schema":
        return MemberForm(format)
    if visitor.schemas is None:
        raise BadRequest(NO_REGISTRY, "format")
    return MemberForm(format, visitor.schemas)


@attrs.define(eq=False, repr=False)
class _Reading:
    """Records of one request, read partition by partition."""

    _call: HttpCall
    _topic: str
    _positions: dict[int, int]
    _ends: dict[int, int]
    _limit: int
    _form: MemberForm
    _has_all: bool
    """Whether `next` goes on with partitions that are added."""
    _grows: bool = attrs.field(kw_only=True)
    """Whether partitions that are added while the request waits belong to it."""
    _texts: list[str] = attrs.field(factory=list, init=False)
    _characters: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)
    """Bytes of the log."""
    _at_end: bool = attrs.field(default=False, init=False)
    _failures: list[KafkaError] = attrs.field(factory=list, init=False)
    """Errors of partitions without a leader; the others are read."""

    async def run(self, wait: float) -> None:
        """Read; wait for the first record, up to some seconds. Raise KafkaError."""
        services = self._call.visitor.services
        clock = services.runtime.clock
        deadline = clock.seconds() + wait
        await self._throttle()
        while True:
            await self._read_all()
            left = deadline - clock.seconds()
            if self._texts or left <= 0 or all(self._positions[index] >= end for index, end in self._ends.items()):
                break
            await News(services, self._topic, self._call.shared.changes).wait(self._positions, left)
            if self._grows:
                await self._grow()
        if self._failures and not self._texts:
            raise self._failures[0]
        await self._count()

    async def _grow(self) -> None:
        """Add the partitions that the topic has got; raise KafkaError."""
        indexes = led_partitions(self._call.visitor.services, self._topic)
        for index in indexes:
            if index in self._positions:
                continue
            try:
                self._positions[index] = await first_offset(self._call.visitor.services, self._topic, index)
            except KafkaError as error:  # its leader does not answer: `next` goes on with it
                if error.code not in PASSING:
                    raise
            else:
                self._ends[index] = NUMBER_MAX

    async def _read_all(self) -> None:
        """Read what there is, the same number of records from each partition first."""
        self._failures.clear()
        open_ = [index for index, offset in self._positions.items() if offset < self._ends[index]]
        while open_ and not self._is_full:
            share = max(1, (self._limit - len(self._texts)) // len(open_))
            over = self._call.visitor.services.runtime.slices.over
            open_ = [index async for index in over(open_) if self._is_full or await self._read(index, share)]
        self._at_end = not open_ and not self._failures

    @property
    def _is_full(self) -> bool:
        return len(self._texts) >= self._limit or self._characters > ANSWER_CHARACTERS_MAX

    async def _read(self, index: int, records_max: int) -> bool:
        """Read from a partition; return whether it may have more."""
        offset, end = self._positions[index], self._ends[index]
        records_max = min(records_max, self._limit - len(self._texts))
        characters_max = ANSWER_CHARACTERS_MAX - self._characters
        selection = PieceSelection(index, offset, end, records_max, characters_max, self._form)
        try:
            piece = await read_piece(self._call.visitor.services, self._topic, selection)
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            self._failures.append(error)
            return False
        if piece is None or piece.next_offset <= offset:
            return False
        self._positions[index] = piece.next_offset
        self._texts += piece.texts
        self._characters += sum(map(len, piece.texts))
        self._size += piece.size
        return piece.next_offset < end

    async def _throttle(self) -> None:
        """Wait while the visitor has used up its quota."""
        visitor = self._call.visitor
        meters = visitor.services.quotas.meters
        if meters is not None and (ms := meters.fetch_throttle_ms(visitor.context, 0)):
            await sleep(visitor.services, ms / 1000)

    async def _count(self) -> None:
        """Count what was read for the visitor's quota, and wait as long as a consumer would."""
        visitor = self._call.visitor
        meters = visitor.services.quotas.meters
        if meters is not None and (ms := meters.count_fetched(visitor.context, self._size)):
            await sleep(visitor.services, ms / 1000)

    async def answer(self) -> None:
        in_lines = NDJSON in (self._call.header("accept") or "")
        rest = {"next": positions_text(self._positions, self._has_all), "at_end": self._at_end}
        size = self._characters + 100 * len(self._texts)
        if in_lines:
            body = await self._call.run(size, _lines, self._texts, rest)
        else:
            body = await self._call.run(size, _document, self._topic, self._texts, rest)
        finish(self._call.request, 200, body, NDJSON if in_lines else JSON)


def _lines(texts: Sequence[str], rest: Any) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode(errors="replace") + json_line(rest)


def _document(topic: str, texts: Sequence[str], rest: Any) -> bytes:
    head = json_line({"topic": topic})[:-2]
    return head + b',"records":[' + ",".join(texts).encode(errors="replace") + b"]," + json_line(rest)[1:]
