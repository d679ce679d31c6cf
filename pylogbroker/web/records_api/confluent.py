"""The produce request of Confluent's REST API v3.

    POST /v3/clusters/{cluster_id}/topics/{topic_name}/records

The body is one JSON object or many, one behind the other, and the answer has an object for each, in the same order, as
they are written. The status is 200; each object has its own `error_code`. A record that is wrong does not end the
stream, JSON that is none does. The paths are also below /kafka, as Confluent Server has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.json_text import NumberText
from pylogbroker.records import Header
from pylogbroker.schemas.framing import Field
from pylogbroker.web.parameters import Name
from pylogbroker.web.records_api.appends import ACKS, Appender, Outcome, Written
from pylogbroker.web.records_api.calls import DOCUMENT_BYTES_MAX, HttpCall, json_line
from pylogbroker.web.records_api.confluent_topics import PREFIXES, check_cluster
from pylogbroker.web.records_api.errors import RecordError, Rejected, error_row
from pylogbroker.web.records_api.json_members import (
    BadRecord,
    JsonMember,
    bytes_of_base64,
    check_names,
    decoded,
    encoded,
    members_at,
    whole,
)
from pylogbroker.web.records_api.json_records import FIELDS, HEADERS_MAX, NewRecord, partition_of, timestamp_of
from pylogbroker.web.records_api.json_stream import BodyObjects, Numbered
from pylogbroker.web.records_api.schema_choices import (
    KINDS,
    STRATEGIES,
    ChosenSchema,
    UnencodedData,
    number_in,
    text_in,
)
from pylogbroker.web.records_api.schema_encoding import ContentEncoder, EncodedRecord, WritingSchema
from pylogbroker.web.router.requests import content_type_of
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.topic_records.paced_response import PacedResponse

_STEP_RECORDS: Final = 1000
_MEMBERS: Final = ("partition_id", "headers", "key", "value", "timestamp")
_DATA_MEMBERS: Final = ("type", "data", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema")
_OF_SCHEMAS: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
_NAMES_OF_KINDS: Final = {KINDS[name]: name for name in _OF_SCHEMAS}
_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 40403,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 40301,
    ErrorCode.MESSAGE_TOO_LARGE: 40002,
}
"""Codes of Confluent's that say more than a status."""


class ConfluentError(TypedDict):
    """Error of a request, or of one record."""

    error_code: int
    message: str


class ConfluentData(TypedDict, total=False):
    """Key or value. Data of BINARY is base64, of STRING a text, of JSON anything.

    Data of the other types is JSON that is encoded by a schema, which has an id, a version of a subject, or a text with
    its type. Without these, it is the latest version of the subject.
    """

    type: Literal["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"]
    subject: Annotated[str | None, "by default, the strategy says it"]
    subject_name_strategy: Literal["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"] | None
    schema_id: int | None
    schema_version: int | None
    schema: Annotated[str | None, "text, which is registered if the subject does not have it"]
    data: Any


class ConfluentHeader(TypedDict):
    """Header, whose value is base64."""

    name: str
    value: NotRequired[str | None]


class ConfluentRecord(TypedDict, total=False):
    """Record to write."""

    partition_id: int
    headers: list[ConfluentHeader]
    key: ConfluentData
    value: ConfluentData
    timestamp: Annotated[str | int, "ISO 8601, or milliseconds since 1970"]


class ConfluentWrittenData(TypedDict):
    """Type of a key or value with its schema, and its bytes in the log."""

    type: str
    size: int
    subject: NotRequired[str]
    schema_id: NotRequired[int]
    schema_version: NotRequired[int]


class ConfluentWritten(TypedDict):
    """Place of a record in the log."""

    error_code: int
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str
    key: NotRequired[ConfluentWrittenData]
    value: NotRequired[ConfluentWrittenData]


Encoder = Callable[[JsonMember, str], bytes]
"""Returns the bytes of data, whose name is for messages; raises BadRecord."""


def _binary(data: JsonMember, name: str) -> bytes:
    return bytes_of_base64(data.value, f"{name}.data")


def _string(data: JsonMember, name: str) -> bytes:
    if not isinstance(data.value, str) or isinstance(data.value, NumberText):
        raise BadRecord(f"{name}.data is no text, as the type STRING needs it")
    return encoded(data.value, f"{name}.data")


def _json(data: JsonMember, name: str) -> bytes:
    return encoded(data.text, f"{name}.data")


_SCHEMA_MEMBERS: Final = tuple(part for part in _DATA_MEMBERS if part not in ("type", "data"))
ENCODERS: Final[Mapping[str, Encoder]] = {"BINARY": _binary, "JSON": _json, "STRING": _string}
"""Encoders of data by its type, which Confluent's API names so."""


@attrs.frozen
class _Parsed:
    """Record of a stream, or why it is none; types and schemas of its key and value are for the answer."""

    record: NewRecord | None
    types: Mapping[Field, str] = attrs.field(factory=dict)
    error: BadRecord | None = None
    schemas: Mapping[Field, WritingSchema] = attrs.field(factory=dict)

    def encoded(self, outcome: EncodedRecord | BadRecord) -> _Parsed:
        """Return the record as it is written, or why it is not."""
        if isinstance(outcome, BadRecord):
            return _Parsed(None, error=outcome)
        types = {field: _NAMES_OF_KINDS.get(schema.kind, schema.kind) for field, schema in outcome.schemas.items()}
        return _Parsed(outcome.record, {**self.types, **types}, None, outcome.schemas)


@attrs.frozen
class _Step:
    records: Sequence[_Parsed]
    is_last: bool
    wrong: BadRecord | None = None
    """Why the stream cannot be read any further."""


def is_confluent(path: bytes) -> bool:
    """Return whether errors of a path have the form of Confluent's."""
    return path.startswith(tuple(f"{prefix}/".encode() for prefix in PREFIXES))


def confluent_error(row: RecordError) -> ConfluentError:
    return {"error_code": row["status"], "message": row["error"]}


async def produce_confluent(call: HttpCall, cluster_id: Name, topic_name: Name) -> None:
    """Write records: JSON objects one behind the other, each of which gets an answer."""
    check_cluster(call.visitor, cluster_id)
    if content_type_of(call.request) != JSON:
        raise Rejected(415, f"expected {JSON}")
    body = call.body()
    appender, encoder = Appender(call.visitor, topic_name, ACKS["all"], None), ContentEncoder(call.visitor, topic_name)
    splitter = BodyObjects(DOCUMENT_BYTES_MAX)
    response = PacedResponse(call.request)
    is_over, has_begun = False, False
    while not is_over:
        data = await body.take()
        is_over = not data
        if not data and not body.received:
            raise BadRecord("Request body is empty. Data is required.")
        if not has_begun:
            response.start(JSON.encode())
            has_begun = True
        parts = splitter.add(data) if data else splitter.end()
        is_last = False
        while not is_last:
            step = await call.run(len(data), _parse_step, parts)
            is_last = step.is_last
            answers = await _written(appender, encoder, step.records, cluster_id)
            if step.wrong is not None:
                is_over = True
                answers.append({"error_code": 400, "message": str(step.wrong)})
            if answers:
                await response.send_piece(await call.run(200 * len(answers), _lines, answers))
    response.end()


def _lines(answers: Sequence[Any]) -> bytes:
    return b"".join(json_line(answer)[:-1] + b"\r\n" for answer in answers)


def _parse_step(parts: Iterator[Numbered]) -> _Step:
    """Return the next records of what has arrived."""
    records: list[_Parsed] = []
    try:
        for _, part in islice(parts, _STEP_RECORDS):
            members = whole(decoded(part))
            try:
                records.append(_record_of(members))
            except BadRecord as error:
                records.append(_Parsed(None, error=error))
    except BadRecord as error:
        return _Step(records, True, error)
    return _Step(records, len(records) < _STEP_RECORDS)


def _record_of(members: Mapping[str, JsonMember]) -> _Parsed:
    check_names(members, _MEMBERS)
    types: dict[Field, str] = {}
    contents: dict[Field, bytes | None] = {}
    unencoded: dict[Field, UnencodedData] = {}
    for field in FIELDS:
        content, types[field] = _data(members.get(field), field)
        if isinstance(content, UnencodedData):
            unencoded[field] = content
        else:
            contents[field] = content
    partition = partition_of(members.get("partition_id"), "partition_id")
    timestamp = timestamp_of(members.get("timestamp"))
    headers = _headers(members["headers"].value) if "headers" in members else ()
    record = NewRecord(contents.get("key"), contents.get("value"), headers, partition, timestamp, unencoded)
    return _Parsed(record, types)


def _data(member: JsonMember | None, name: str) -> tuple[bytes | UnencodedData | None, str]:
    """Return a key or value, and its type, which is empty if the schema says it."""
    if member is None or member.value is None:
        return None, ""
    if not isinstance(member.value, dict):
        raise BadRecord(f'{name} must be an object such as {{"type": "JSON", "data": ...}}')
    members, _ = members_at(member.text)
    check_names(members, _DATA_MEMBERS)
    values = {part: content.value for part, content in members.items()}
    kind, data = text_in(values, "type", name), members.get("data")
    if kind and kind not in (*ENCODERS, *_OF_SCHEMAS):
        raise BadRecord(f"{name}.type must be one of {', '.join((*ENCODERS, *_OF_SCHEMAS))}")
    if kind not in ENCODERS:
        is_null = data is None or data.value is None
        return UnencodedData(_choice(values, kind, name), None if data is None or is_null else data.text), kind
    for part in _SCHEMA_MEMBERS:
        if values.get(part) is not None:
            raise BadRecord(f"{name}.type {kind} has no schema: leave {part} out, or use {', '.join(_OF_SCHEMAS)}")
    if data is None or data.value is None:
        return None, kind
    return ENCODERS[kind](data, name), kind


def _choice(values: Mapping[str, Any], kind: str, name: str) -> ChosenSchema:
    """Return the schema that a key or value names, as Confluent's REST proxy reads it; raise BadRecord."""
    chosen = [part for part in ("schema_id", "schema_version", "schema") if values.get(part) is not None]
    if len(chosen) > 1:
        raise BadRecord(f"{name} has {chosen[0]} and {chosen[1]}: one of them says what to write by")
    if values.get("subject") is not None and values.get("subject_name_strategy") is not None:
        raise BadRecord(f"{name} has subject and subject_name_strategy: one of them says which subject it is")
    strategy = text_in(values, "subject_name_strategy", name) or "TOPIC_NAME"
    if strategy not in STRATEGIES:
        raise BadRecord(f"{name}.subject_name_strategy must be one of {', '.join(STRATEGIES)}")
    text = text_in(values, "schema", name, characters_max=None)
    if text and not kind:
        raise BadRecord(f"{name}.type is missing: a schema is {', '.join(_OF_SCHEMAS)}")
    subject = text_in(values, "subject", name)
    schema_id = number_in(values, "schema_id", name)
    if not text and schema_id is None and not subject and strategy != "TOPIC_NAME":
        raise BadRecord(f"{name}.subject_name_strategy {strategy} needs schema_id or schema: the subject has its name")
    return ChosenSchema(
        subject,
        STRATEGIES[strategy],
        id=schema_id,
        version=number_in(values, "schema_version", name, 1),
        text=text,
        kind=KINDS.get(kind, ""),
    )


def _headers(rows: Any) -> tuple[Header, ...]:
    if rows is None:
        return ()
    if not isinstance(rows, list) or len(rows) > HEADERS_MAX:
        raise BadRecord(f'headers must be a list of at most {HEADERS_MAX} {{"name": ..., "value": base64}}')
    headers: list[Header] = []
    for number, row in enumerate(rows):
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or isinstance(name, NumberText):
            raise BadRecord(f"headers[{number}] needs a text as its name")
        encoded(name, f"headers[{number}].name")
        value = row.get("value")
        headers.append((name, None if value is None else bytes_of_base64(value, f"headers[{number}].value")))
    return tuple(headers)


async def _written(
    appender: Appender, encoder: ContentEncoder, parsed: Sequence[_Parsed], cluster_id: str
) -> list[Any]:
    """Write records; return the answer of each."""
    encoded = iter(await encoder.encode([row.record for row in parsed if row.record is not None]))
    parsed = [row if row.record is None else row.encoded(next(encoded)) for row in parsed]
    records = [row.record for row in parsed if row.record is not None]
    outcomes: Sequence[Outcome]
    try:
        outcomes = await appender.append(records) if records else ()
    except KafkaError as error:
        outcomes = [error] * len(records)
    remaining = iter(outcomes)
    return [
        _answer_of(row, row.error if row.record is None else next(remaining), appender.topic, cluster_id)
        for row in parsed
    ]


def _answer_of(parsed: _Parsed, outcome: Outcome | BadRecord | None, topic: str, cluster_id: str) -> Any:
    if not isinstance(outcome, Written) or parsed.record is None:
        error = outcome if isinstance(outcome, Exception) else BadRecord("this is no record")
        row = confluent_error(error_row(error))
        if isinstance(error, KafkaError):
            row["error_code"] = _CODES.get(error.code, row["error_code"])
        elif isinstance(error, BadRecord):
            row["error_code"] = error.code
        return row
    answer: ConfluentWritten = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": _instant(outcome.timestamp or 0),
    }
    if parsed.types.get("key"):
        answer["key"] = _written_data(parsed, "key", parsed.record.key)
    if parsed.types.get("value"):
        answer["value"] = _written_data(parsed, "value", parsed.record.value)
    return answer


def _written_data(parsed: _Parsed, field: Field, content: bytes | None) -> ConfluentWrittenData:
    row: ConfluentWrittenData = {"type": parsed.types[field], "size": len(content or b"")}
    schema = parsed.schemas.get(field)
    if schema is not None:
        row |= {"subject": schema.subject, "schema_id": schema.id, "schema_version": schema.version}
    return row


def _instant(milliseconds: int) -> str:
    """Return a time as Java's Instant writes it; a number where no calendar goes so far."""
    try:
        text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return text.replace("+00:00", "Z")
