"""POST /api/topics/T/records: one record, many, or a stream of lines.

    application/json        {"value": ...}               {"topic": "T", "partition": 0, "offset": 17, "timestamp": ...}
                            {"records": [{...}, ...]}    {"topic": "T", "records": [{"partition": 0, ...}, ...]}
    application/x-ndjson    one record in each line      what was written, or with ?answers=lines a line for each line

Lines are written as they arrive. A line that is wrong ends the request: the lines before it stay written, and the
answer names it. With an Idempotency-Key, all lines are checked before the first is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.web.parameters import Index, Name
from pylogbroker.web.records_api.appends import ACKS, Appender, Outcome, Written
from pylogbroker.web.records_api.calls import DOCUMENT_BYTES_MAX, HttpCall, json_line
from pylogbroker.web.records_api.errors import RecordError, Rejected, error_row, status_of_error
from pylogbroker.web.records_api.idempotence import HEADER, keyed_producer
from pylogbroker.web.records_api.json_members import RECORDS_MAX, BadRecord, check_names, decoded, whole
from pylogbroker.web.records_api.json_records import NewRecord, record_of
from pylogbroker.web.records_api.json_stream import BodyLines, Numbered, Splitter
from pylogbroker.web.records_api.schema_choices import Choices, SchemaOfContent, choice_of_parameter
from pylogbroker.web.records_api.schema_encoding import ContentEncoder, EncodedRecord
from pylogbroker.web.router.requests import content_type_of
from pylogbroker.web.router.routes import JSON, NDJSON
from pylogbroker.web.topic_records.paced_response import PacedResponse

STEP_RECORDS: Final = 1000
"""Records of a stream that are written together."""

Parsed = Sequence[tuple[int, NewRecord]]


class HeaderToWrite(TypedDict):
    """Header of a new record; without a value, it has none."""

    name: str
    value: NotRequired[str | None]
    value_base64: NotRequired[str]


class RecordToWrite(TypedDict, total=False):
    """Record to write. Without a partition, the key decides as for Kafka's clients, or without a key chance does."""

    key: Annotated[Any, "a text, or JSON that is written as it is; null or nothing: no key"]
    key_base64: Annotated[str, "in place of key: bytes"]
    key_schema: SchemaOfContent
    value: Annotated[Any, "a text, or JSON that is written as it is; null or nothing: a tombstone"]
    value_base64: Annotated[str, "in place of value: bytes"]
    value_schema: SchemaOfContent
    headers: list[HeaderToWrite] | dict[str, str]
    partition: Index
    timestamp: Annotated[int | str, "milliseconds since 1970, or ISO 8601; by default the time of the broker"]


class RecordsToWrite(TypedDict):
    """Several records to write."""

    records: list[RecordToWrite]


class WrittenRow(TypedDict):
    """Place of a record. The timestamp is left out if an earlier request with the same key may have chosen it."""

    partition: int
    offset: int
    timestamp: NotRequired[int]


class WrittenRecord(WrittenRow):
    """Place of one record."""

    topic: str


class WrittenRecords(TypedDict):
    """Places of records in their order, or why they are not there."""

    topic: str
    records: list[WrittenRow | RecordError]


class WrittenPartition(TypedDict):
    """Records that a stream has written to a partition; others may have written between them."""

    partition: int
    records: int
    first_offset: int
    last_offset: int


class LineError(RecordError):
    """Error of a line, which ends a stream."""

    line: int


class WrittenLines(TypedDict):
    """Records that a stream has written, and the error that has ended it."""

    topic: str
    written: int
    partitions: list[WrittenPartition]
    line: NotRequired[int]
    error: NotRequired[str]
    status: NotRequired[int]


Acks = Annotated[Literal["all", "1"], "all: all replicas in sync have the records before the answer; 1: the leader has"]
Answers = Annotated[Literal["summary", "lines"], "of lines: what was written as a whole, or a line for each line"]


SchemaName = Annotated[str, "encode by this schema: an id, latest, or SUBJECT:3"]


async def write_records(
    call: HttpCall,
    topic: Name,
    acks: Acks = "all",
    answers: Answers = "summary",
    key_schema: SchemaName = "",
    value_schema: SchemaName = "",
) -> None:
    """Write records: one, several as `records`, or a stream of lines."""
    kind = content_type_of(call.request)
    if kind not in (JSON, NDJSON):
        cure = "curl --json sends JSON, or -H 'Content-Type: application/json'"
        raise Rejected(415, f"expected {JSON} or {NDJSON}, not {kind or 'a body without a Content-Type'}: {cure}")
    key = call.header(HEADER)
    keyed = None if key is None else keyed_producer(call.visitor.principal, topic, key)
    choices: Choices = {}
    if key_schema:
        choices = {"key": choice_of_parameter(key_schema, "key_schema")}
    if value_schema:
        choices = {**choices, "value": choice_of_parameter(value_schema, "value_schema")}
    writes = _Writes(Appender(call.visitor, topic, ACKS[acks], keyed), ContentEncoder(call.visitor, topic), choices)
    if kind == JSON:
        await _write_document(call, writes)
        return
    writer = _LineWriter.of(call, writes, answers)
    if keyed is None:
        await writer.run()
    else:
        await writer.run_checked(await call.document())


@attrs.frozen
class _Writes:
    """Steps of the records of one request, and the schemas of those that name none."""

    appender: Appender
    encoder: ContentEncoder
    choices: Choices


async def _write_document(call: HttpCall, writes: _Writes) -> None:
    appender = writes.appender
    data = await call.document()
    parsed, is_single = await call.run(len(data), _document, data, writes.choices)
    records = []
    for number, encoded in enumerate(await writes.encoder.encode(parsed), 1):
        if isinstance(encoded, BadRecord):
            raise encoded if is_single else encoded.in_part(f"record {number}")
        records.append(encoded.record)
    outcomes = await appender.append(records)
    if is_single:
        [outcome] = outcomes
        if not isinstance(outcome, Written):
            raise outcome
        await call.answer(200, {"topic": appender.topic, **_row(outcome)})
        return
    errors = [outcome for outcome in outcomes if not isinstance(outcome, Written)]
    status = 200 if not errors else 207 if len(errors) < len(outcomes) else status_of_error(errors[0])
    await call.answer(status, {"topic": appender.topic, "records": [*map(_row, outcomes)]}, len(outcomes))


def _document(data: bytes, choices: Choices) -> tuple[list[NewRecord], bool]:
    """Return the records of a body, and whether it is a single one; raise BadRecord."""
    members = whole(decoded(data), "records")
    if "records" not in members:
        return [record_of(members, choices)], True
    check_names(members, ("records",))
    rows = members["records"].value
    if not isinstance(rows, list):
        raise BadRecord("records must be a list of objects")
    records = []
    for number, row in enumerate(rows, 1):
        try:
            records.append(record_of(row, choices))
        except BadRecord as error:
            raise error.in_part(f"record {number}") from None
    return records, False


@attrs.frozen
class ParsedStep:
    """Records of a stream with their numbers, and the number and error of the part behind them that is wrong."""

    records: Sequence[tuple[int, NewRecord]]
    wrong: tuple[int, BadRecord] | None = None

    @property
    def is_last(self) -> bool:
        """True if what has arrived has no further part."""
        return self.wrong is not None or len(self.records) < STEP_RECORDS


def parse_step(parts: Iterator[Numbered], splitter: Splitter, choices: Choices) -> ParsedStep:
    """Return the next records of parts; `choices` has schemas for those that name none."""
    records: list[tuple[int, NewRecord]] = []
    try:
        for number, part in islice(parts, STEP_RECORDS):
            try:
                records.append((number, record_of(whole(decoded(part)), choices)))
            except BadRecord as error:
                return ParsedStep(records, (number, error))
    except BadRecord as error:
        return ParsedStep(records, (splitter.number, error))
    return ParsedStep(records)


@attrs.define(eq=False, repr=False)
class _LineWriter:
    """Writes the lines of a stream, and answers."""

    _call: HttpCall
    _writes: _Writes
    _response: PacedResponse | None
    """Takes a line for each line; None for one answer at the end."""
    _splitter: BodyLines = attrs.field(factory=lambda: BodyLines(DOCUMENT_BYTES_MAX), init=False)
    _errors: list[LineError] = attrs.field(factory=list, init=False)
    """The first error of a line, if there is one."""
    _written: int = attrs.field(default=0, init=False)
    _partitions: dict[int, WrittenPartition] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, call: HttpCall, writes: _Writes, answers: Answers) -> _LineWriter:
        return cls(call, writes, PacedResponse(call.request) if answers == "lines" else None)

    async def run(self) -> None:
        """Write lines as they arrive; the next ones wait meanwhile."""
        body = self._call.body()
        self._start()
        is_over = False
        while not is_over and not self._errors:
            data = await body.take()
            is_over = not data
            parts = self._splitter.add(data) if data else self._splitter.end()
            await self._write_parts(parts, len(data))
        await self._end()

    async def _write_parts(self, parts: Iterator[Numbered], size: int) -> None:
        is_last = False
        while not is_last and not self._errors:
            step = await self._call.run(size, parse_step, parts, self._splitter, self._writes.choices)
            is_last = step.is_last
            records, wrong = await self._encoded(step.records)
            await self._write(records)
            if wrong is not None:
                self._fail(*wrong)
            if step.wrong is not None:
                self._fail(*step.wrong)

    async def run_checked(self, data: bytes) -> None:
        """Write the lines of a whole body after all of them are checked: a retry has the same batches."""
        records: list[tuple[int, NewRecord]] = []
        splitter = self._splitter
        for parts in (splitter.add(data), splitter.end()):
            is_last = False
            while not is_last:
                step = await self._call.run(len(data), parse_step, parts, splitter, self._writes.choices)
                is_last = step.is_last
                records += step.records
                if len(records) > RECORDS_MAX:
                    raise Rejected(413, f"a request with {HEADER} has at most {RECORDS_MAX:,} records")
                if step.wrong is not None:
                    self._fail(*step.wrong)
        self._start()
        if not self._errors:
            records, wrong = await self._encoded(records)
            if wrong is None:
                await self._write(records)
            else:
                self._fail(*wrong)
        await self._end()

    async def _encoded(
        self, records: Sequence[tuple[int, NewRecord]]
    ) -> tuple[list[tuple[int, NewRecord]], tuple[int, BadRecord] | None]:
        """Return records by their schemas up to one that does not fit, and the number and error of that one."""
        encoded: list[tuple[int, NewRecord]] = []
        outcomes = await self._writes.encoder.encode([record for _, record in records])
        for (number, _), outcome in zip(records, outcomes, strict=True):
            if not isinstance(outcome, EncodedRecord):
                return encoded, (number, outcome)
            encoded.append((number, outcome.record))
        return encoded, None

    async def _write(self, records: Sequence[tuple[int, NewRecord]]) -> None:
        if not records:
            return
        try:
            outcomes: Sequence[Outcome] = await self._writes.appender.append([record for _, record in records])
        except KafkaError as error:
            outcomes = [error] * len(records)
        numbers = [number for number, _ in records]
        for number, outcome in zip(numbers, outcomes, strict=True):
            self._count(number, outcome)
        if self._response is not None:
            lines = await self._call.run(100 * len(records), _lines, numbers, outcomes)
            await self._response.send_piece(lines)

    def _count(self, number: int, outcome: Outcome) -> None:
        if not isinstance(outcome, Written):
            self._fail(number, outcome)
            return
        self._written += 1
        offset = outcome.offset
        count = self._partitions.setdefault(
            outcome.partition,
            {"partition": outcome.partition, "records": 0, "first_offset": offset, "last_offset": offset},
        )
        count["records"] += 1
        count["first_offset"] = min(count["first_offset"], offset)
        count["last_offset"] = max(count["last_offset"], offset)

    def _fail(self, number: int, error: Exception) -> None:
        """Note the first error of a line."""
        if not self._errors:
            row = error_row(error)
            self._errors.append({"line": number, "error": f"line {number}: {row['error']}", "status": row["status"]})

    def _start(self) -> None:
        if self._response is not None:
            self._response.start(NDJSON.encode())

    async def _end(self) -> None:
        if self._response is not None:
            if self._errors:
                await self._response.send_piece(json_line({**self._errors[0], "written": self._written}))
            self._response.end()
            return
        summary: WrittenLines = {
            "topic": self._writes.appender.topic,
            "written": self._written,
            "partitions": [self._partitions[index] for index in sorted(self._partitions)],
        }
        status = 200
        if self._errors:
            error = self._errors[0]
            status = error["status"]
            summary |= {"line": error["line"], "error": error["error"], "status": status}
        await self._call.answer(status, summary, len(self._partitions))


def _lines(numbers: Sequence[int], outcomes: Sequence[Outcome]) -> bytes:
    """Return the lines of written records; the error of a line comes behind all of them."""
    return b"".join(
        json_line({"line": number, **_row(outcome)})
        for number, outcome in zip(numbers, outcomes, strict=True)
        if isinstance(outcome, Written)
    )


def _row(outcome: Outcome) -> Any:
    if not isinstance(outcome, Written):
        return error_row(outcome)
    row = {"partition": outcome.partition, "offset": outcome.offset}
    return row if outcome.timestamp is None else {**row, "timestamp": outcome.timestamp}
