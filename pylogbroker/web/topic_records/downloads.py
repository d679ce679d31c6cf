"""Files: all that a search finds as NDJSON or CSV, and the value of one record. Files are streamed as they are found.

    {"partition": 4, "offset": 402338, "timestamp": 1764314899117, "key": "c-3", "value": {"amount": 129.90},
     "headers": [["source", "web"]]}

A value that is JSON stands in NDJSON as it was written. Bytes that are no text become {"base64": "..."}, in CSV
base64:... A file that ends early, by a bound or a fault, says so in its last line.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable
from typing import Annotated, Final, Unpack

from twisted.web.server import Request

from pylogbroker.conditions import Subject
from pylogbroker.errors import KafkaError
from pylogbroker.json_text import is_json
from pylogbroker.web.parameters import Name
from pylogbroker.web.record_search.search import TopicSearch
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.topic_records.opened import stored_record
from pylogbroker.web.topic_records.paced_response import PacedResponse
from pylogbroker.web.topic_records.page import QueryFields
from pylogbroker.web.topic_records.query import BadField, RecordQuery, parsed_place
from pylogbroker.web.visitors import Visitor

RECORDS_MAX: Final = 1_000_000
SECONDS_MAX: Final = 600.0
_PENDING_ROWS: Final = 1000
_PIECE_BYTES: Final = 64 * 1024
_CSV_HEAD: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

Format = Annotated[str, OneOf(("ndjson", "csv"))]


class FileStream(PacedResponse):
    """Writes pieces of a file."""

    def begin(self, content_type: str, name: str) -> None:
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        self.start(content_type.encode(), f'attachment; filename="{plain}"'.encode())


async def download_records(
    visitor: Visitor, request: Request, topic: Name, format: Format = "ndjson", **fields: Unpack[QueryFields]
) -> None:
    """Send all records that a search finds as a file."""
    query = RecordQuery(topic, **fields)
    runtime = visitor.services.runtime
    try:
        search = await TopicSearch.opened(visitor, query.search_request(runtime.now_ms(), _PENDING_ROWS))
    except BadField as error:
        raise BadRequest(str(error)) from None
    line = csv_line if format == "csv" else json_line
    stream = FileStream(request)
    stream.begin("text/csv; charset=utf-8" if format == "csv" else "application/x-ndjson", f"{topic}.{format}")
    if format == "csv":
        await stream.send_piece(_csv(_CSV_HEAD))
    await stream.send_piece(await _sent(visitor, search, stream, line))
    stream.end()


async def _sent(visitor: Visitor, search: TopicSearch, stream: FileStream, line: Callable[[Subject], bytes]) -> bytes:
    """Send lines; return the last one, which says why the file ends early, or nothing."""
    runtime = visitor.services.runtime
    began, count = runtime.clock.seconds(), 0
    ending = ""
    while not search.is_done and not ending:
        try:
            records = await search.advance(_PENDING_ROWS)
        except KafkaError as error:
            ending = f"the search failed: {error.detail}"
            break
        pieces = [line(record) async for record in runtime.slices.over(records)]
        count += len(records)
        await stream.send_piece(b"".join(pieces))
        if count >= RECORDS_MAX:
            ending = f"there may be more than these {count:,} records"
        elif runtime.clock.seconds() - began > SECONDS_MAX:
            ending = f"the search was stopped after {SECONDS_MAX:,.0f} s"
    problems = [*search.problems, *([ending] if ending else [])]
    if not problems:
        return b""
    text = "incomplete: " + " ".join(problems)
    return _csv((text,)) if line is csv_line else json.dumps({"incomplete": text}).encode() + b"\n"


def json_line(record: Subject) -> bytes:
    head = f'{{"partition":{record.partition},"offset":{record.offset},"timestamp":{record.time}'
    headers = ",".join(f"[{json.dumps(name)},{_json(content)}]" for name, content in record.headers)
    text = f'{head},"key":{_json(record.key)},"value":{_json(record.value, True)},"headers":[{headers}]}}\n'
    return text.encode(errors="replace")


def _json(content: bytes | None, may_be_json: bool = False) -> str:
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return json.dumps({"base64": base64.b64encode(content).decode()})
    if may_be_json and is_json(text):
        return text.replace("\n", " ").replace("\r", " ")  # between tokens only: texts have them as escapes
    return json.dumps(text, ensure_ascii=False)


def csv_line(record: Subject) -> bytes:
    """Return a line for a spreadsheet, which must not take a text for a formula."""
    headers = ", ".join(f"{name}: {_text(content)}" for name, content in record.headers)
    texts = [_text(record.key), _text(record.value), headers]
    safe = [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]
    return _csv((record.partition, record.offset, record.time, *safe))


def _text(content: bytes | None) -> str:
    if content is None:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(content).decode()}"


def _csv(cells: tuple[object, ...]) -> bytes:
    target = io.StringIO()
    csv.writer(target, lineterminator="\r\n").writerow(cells)
    return target.getvalue().encode(errors="replace")


async def record_value(visitor: Visitor, request: Request, topic: Name, **fields: Unpack[QueryFields]) -> None:
    """Send the value of one record as a file."""
    query = RecordQuery(topic, **fields)
    try:
        partition, offset = parsed_place(query.at)
    except BadField as error:
        raise BadRequest(str(error)) from None
    value = (await stored_record(visitor, topic, partition, offset)).record.value or b""
    stream = FileStream(request)
    stream.begin("application/octet-stream", f"{topic}-{partition}-{offset}")
    for start in range(0, len(value), _PIECE_BYTES):
        await stream.send_piece(value[start : start + _PIECE_BYTES])
    stream.end()
