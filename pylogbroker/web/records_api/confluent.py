"""The produce request of Confluent's REST API v3, and what its clients look up first.

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
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.parameters import Name
from pylogbroker.web.records_api.appends import ACKS, Appender, Outcome, Written
from pylogbroker.web.records_api.calls import DOCUMENT_BYTES_MAX, HttpCall, json_line
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
from pylogbroker.web.records_api.json_records import HEADERS_MAX, NewRecord, partition_of, timestamp_of
from pylogbroker.web.records_api.json_stream import BodyObjects, Numbered
from pylogbroker.web.router.requests import content_type_of
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.topic_records.paced_response import PacedResponse
from pylogbroker.web.visitors import Visitor

TOPICS_MAX: Final = 10_000
PREFIXES: Final = ("/v3", "/kafka/v3")

_STEP_RECORDS: Final = 1000
_MEMBERS: Final = ("partition_id", "headers", "key", "value", "timestamp")
_DATA_MEMBERS: Final = ("type", "data", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema")
_OF_SCHEMAS: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
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
    """Key or value. Data of BINARY is base64, of STRING a text, of JSON anything."""

    type: Literal["BINARY", "JSON", "STRING"]
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
    """Type of a key or value, and its bytes in the log."""

    type: str
    size: int


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


ENCODERS: Final[Mapping[str, Encoder]] = {"BINARY": _binary, "JSON": _json, "STRING": _string}
"""Encoders of data by its type, which Confluent's API names so."""


@attrs.frozen
class _Parsed:
    """Record of a stream, or why it is none; the types of its key and value are for the answer."""

    record: NewRecord | None
    key_type: str = ""
    value_type: str = ""
    error: BadRecord | None = None


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
    _check_cluster(call.visitor, cluster_id)
    if content_type_of(call.request) != JSON:
        raise Rejected(415, f"expected {JSON}")
    body = call.body()
    appender = Appender(call.visitor, topic_name, ACKS["all"], None)
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
            answers = await _written(appender, step.records, cluster_id)
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
    key, key_type = _data(members.get("key"), "key")
    value, value_type = _data(members.get("value"), "value")
    partition = partition_of(members.get("partition_id"), "partition_id")
    timestamp = timestamp_of(members.get("timestamp"))
    headers = _headers(members["headers"].value) if "headers" in members else ()
    return _Parsed(NewRecord(key, value, headers, partition, timestamp), key_type, value_type)


def _data(member: JsonMember | None, name: str) -> tuple[bytes | None, str]:
    """Return the bytes of a key or value, and its type."""
    if member is None or member.value is None:
        return None, ""
    if not isinstance(member.value, dict):
        raise BadRecord(f'{name} must be an object such as {{"type": "JSON", "data": ...}}')
    members, _ = members_at(member.text)
    check_names(members, _DATA_MEMBERS)
    kind = members["type"].value if "type" in members else None
    if kind in _OF_SCHEMAS or (kind is None and any(part != "data" for part in members)):
        raise BadRecord(f"{name} needs a schema, which is not served here: use one of the types {', '.join(ENCODERS)}")
    if kind is None or not isinstance(kind, str) or kind not in ENCODERS:
        raise BadRecord(f"{name}.type must be one of {', '.join(ENCODERS)}")
    data = members.get("data")
    if data is None or data.value is None:
        return None, kind
    return ENCODERS[kind](data, name), kind


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


async def _written(appender: Appender, parsed: Sequence[_Parsed], cluster_id: str) -> list[Any]:
    """Write records; return the answer of each."""
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
        return row
    answer: ConfluentWritten = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": _instant(outcome.timestamp or 0),
    }
    if parsed.key_type:
        answer["key"] = {"type": parsed.key_type, "size": len(parsed.record.key or b"")}
    if parsed.value_type:
        answer["value"] = {"type": parsed.value_type, "size": len(parsed.record.value or b"")}
    return answer


def _instant(milliseconds: int) -> str:
    """Return a time as Java's Instant writes it; a number where no calendar goes so far."""
    try:
        text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return text.replace("+00:00", "Z")


def _check_cluster(visitor: Visitor, cluster_id: str) -> None:
    own = visitor.services.node.cluster_id
    if cluster_id != own:
        raise Rejected(404, f"Cluster {cluster_id} cannot be found: this is {own}")


class ConfluentCluster(TypedDict):
    """The cluster of this broker."""

    kind: str
    metadata: dict[str, str]
    cluster_id: str
    topics: dict[str, str]


class ConfluentTopic(TypedDict):
    """A topic."""

    kind: str
    metadata: dict[str, str]
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    records: dict[str, str]


class ConfluentClusters(TypedDict):
    """The cluster of this broker, as a list."""

    kind: str
    metadata: dict[str, str | None]
    data: list[ConfluentCluster]


class ConfluentTopics(TypedDict):
    """Topics that the visitor may see."""

    kind: str
    metadata: dict[str, str | None]
    data: list[ConfluentTopic]


async def confluent_clusters(call: HttpCall) -> None:
    """Return the cluster of this broker."""
    values: ConfluentClusters = {
        "kind": "KafkaClusterList",
        "metadata": {"self": _address(call, "clusters"), "next": None},
        "data": [_cluster(call)],
    }
    await call.answer(200, values)


async def confluent_cluster(call: HttpCall, cluster_id: Name) -> None:
    """Return the cluster of this broker by its id."""
    _check_cluster(call.visitor, cluster_id)
    await call.answer(200, _cluster(call))


async def confluent_topics(call: HttpCall, cluster_id: Name) -> None:
    """Return the topics that the visitor may see."""
    _check_cluster(call.visitor, cluster_id)
    visitor = call.visitor
    over = visitor.services.runtime.slices.over
    names = [name async for name in over(sorted(visitor.services.metadata.topics)) if visitor.sees_topic(name)]
    rows = [_topic(call, name) async for name in over(names[:TOPICS_MAX])]
    values: ConfluentTopics = {
        "kind": "KafkaTopicList",
        "metadata": {"self": _address(call, f"clusters/{cluster_id}/topics"), "next": None},
        "data": rows,
    }
    await call.answer(200, values, len(rows))


async def confluent_topic(call: HttpCall, cluster_id: Name, topic_name: Name) -> None:
    """Return a topic."""
    _check_cluster(call.visitor, cluster_id)
    call.visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic_name)
    await call.answer(200, _topic(call, topic_name))


def _cluster(call: HttpCall) -> ConfluentCluster:
    cluster_id = call.visitor.services.node.cluster_id
    return {
        "kind": "KafkaCluster",
        "metadata": {
            "self": _address(call, f"clusters/{cluster_id}"),
            "resource_name": f"crn:///kafka={cluster_id}",
        },
        "cluster_id": cluster_id,
        "topics": {"related": _address(call, f"clusters/{cluster_id}/topics")},
    }


def _topic(call: HttpCall, name: str) -> ConfluentTopic:
    cluster_id = call.visitor.services.node.cluster_id
    image = call.visitor.services.metadata.require_topic(name)
    address = _address(call, f"clusters/{cluster_id}/topics/{name}")
    return {
        "kind": "KafkaTopic",
        "metadata": {"self": address, "resource_name": f"crn:///kafka={cluster_id}/topic={name}"},
        "cluster_id": cluster_id,
        "topic_name": name,
        "is_internal": image.internal,
        "replication_factor": image.replication_factor,
        "partitions_count": len(image.partitions),
        "records": {"related": f"{address}/records"},
    }


def _address(call: HttpCall, path: str) -> str:
    own = call.request.path.decode("ascii", "replace")
    prefix = next(prefix for prefix in reversed(PREFIXES) if own.startswith(f"{prefix}/"))
    return f"http://{call.header('host')}{prefix}/{path}"
