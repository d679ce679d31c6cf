"""One record in full: where it stands, who wrote it, its key, value and headers in a form that is chosen."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.records import LogEntry, Record, TimestampType, entries
from pylogbroker.schemas.framing import Field
from pylogbroker.web.links import link, path_of
from pylogbroker.web.record_rows import RecordRegion, shown
from pylogbroker.web.record_search.batches import INFLATED_BYTES_MAX
from pylogbroker.web.record_search.search import open_partitions
from pylogbroker.web.schema_store import DecodedContent, SchemaStore, frames_of
from pylogbroker.web.topic_records.cells import time_texts
from pylogbroker.web.topic_records.json_tree import LINES_OPEN, JsonNode, json_tree
from pylogbroker.web.visitors import Visitor

SHOWN_BYTES_MAX: Final = 64 * 1024
Form = Literal["", "json", "text", "hex"]
TEXT: Final = "text"
BASE64: Final = "base64"
_LOST_IN_FORMS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that browsers drop or replace, ends of lines among them."""
_HEADERS_MAX: Final = 100
_HEADER_BYTES_MAX: Final = 4 * 1024
_HEX_BYTES_MAX: Final = 4 * 1024
_HEX_WIDTH: Final = 16


@attrs.frozen
class ShownContent:
    """Key, value or header; `tree` is there if it is shown as JSON, else `text` stands for it."""

    form: str
    text: str
    size: int
    is_cut: bool = False
    tree: JsonNode | None = None
    label: str = ""
    """Schema that it is decoded by."""
    schema_path: str = ""
    """Address of the page of that schema, if there is one."""
    problem: str = ""
    """Why it is not decoded, although it names a schema."""

    @property
    def is_unfolded(self) -> bool:
        return self.tree is not None and self.tree.lines <= LINES_OPEN


@attrs.frozen
class OpenedRecord:
    topic: str
    partition: int
    offset: int
    time: str
    clock: str
    codec: str
    producer: str
    key: ShownContent
    value: ShownContent
    headers: Sequence[tuple[str, ShownContent]]
    header_count: int
    command: str
    again: RecordForm | None

    @property
    def at(self) -> str:
        return f"{self.partition}:{self.offset}"


@attrs.frozen
class RecordForm:
    """Texts of the form that writes a record; bytes that are no text are base64."""

    partition: str = ""
    key: str = ""
    key_form: str = TEXT
    value: str = ""
    value_form: str = TEXT
    headers: str = ""
    headers_form: str = TEXT
    tombstone: bool = False
    empty_key: bool = False


@attrs.frozen
class StoredRecord:
    """A record, and the entry that has it."""

    entry: LogEntry
    record: Record


async def stored_record(visitor: Visitor, topic: str, partition: int, offset: int) -> StoredRecord:
    """Return a record of a partition; raise KafkaError."""
    logs, problems = await open_partitions(visitor, topic, [partition])
    if not logs:
        raise KafkaError(problems[0].rstrip("."), ErrorCode.LEADER_NOT_AVAILABLE)
    [log] = logs
    start, end = log.log_start_offset, log.high_watermark
    if not start <= offset < end:
        range_text = f"it has offsets {start:,} to {end - 1:,}" if start < end else "it has no records"
        what = f"{topic} has no record {offset:,} in partition {partition}: {range_text}"
        raise KafkaError(what, ErrorCode.RESOURCE_NOT_FOUND)
    region = await log.region_at(offset, end, 1)
    stored = None if region is None else await _in_thread(visitor.services.runtime, region, offset)
    if stored is None:
        what = f"{topic} has no record {offset:,} in partition {partition} any more: it was compacted, or is a marker"
        raise KafkaError(what, ErrorCode.RESOURCE_NOT_FOUND)
    return stored


async def _in_thread(runtime: Runtime, region: RecordRegion, offset: int) -> StoredRecord | None:
    try:
        stored: StoredRecord | None = await runtime.in_reading_thread(_find, region, offset)
    except (CorruptRecords, InvalidRecords) as error:
        raise KafkaError(f"the batch of offset {offset} cannot be read: {error}", ErrorCode.CORRUPT_MESSAGE) from None
    return stored


def _find(region: RecordRegion, offset: int) -> StoredRecord | None:
    """Return the record of an offset. Blocks."""
    for entry in entries(region.read(), partial=True):
        if entry.last_offset >= offset and not entry.is_control:
            for record in entry.records(INFLATED_BYTES_MAX):
                if record.offset == offset:
                    return StoredRecord(entry, record)
            return None
    return None


def opened_record(
    topic: str, partition: int, stored: StoredRecord, form: Form, now_ms: int, schemas: SchemaStore | None = None
) -> OpenedRecord:
    """Return what the page shows of a record."""
    entry, record = stored.entry, stored.record
    _, time = time_texts(record.timestamp, 0)
    headers = [(name, content(value, "", _HEADER_BYTES_MAX)) for name, value in record.headers[:_HEADERS_MAX]]
    is_broker = record.timestamp_type is TimestampType.LOG_APPEND_TIME
    return OpenedRecord(
        topic,
        partition,
        record.offset,
        time,
        f"by the clock of the {'broker' if is_broker else 'producer'}{_ago(now_ms - record.timestamp)}",
        entry.codec.name.lower() if entry.codec else "not compressed",
        _producer(entry, record),
        _decoded(topic, "key", record, "", schemas),
        _decoded(topic, "value", record, form, schemas),
        headers,
        len(record.headers),
        f"pylogbroker consume {shlex.quote(f'{topic}:{partition}')} -o {record.offset} -n 1 -f json",
        _again(record),
    )


def _ago(elapsed_ms: int) -> str:
    seconds = elapsed_ms // 1000
    if not 0 <= seconds < 86400 * 3650:
        return ""
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f", {seconds // unit} {name} {seconds % unit // smaller} {smaller_name} ago"
    return f", {seconds} s ago"


def _producer(entry: LogEntry, record: Record) -> str:
    if entry.producer_id < 0:
        return ""
    sequence = entry.base_sequence + record.offset - entry.base_offset
    text = f"id {entry.producer_id}, epoch {entry.producer_epoch}"
    if entry.base_sequence >= 0:
        text += f", sequence {sequence & 0x7FFFFFFF:,}"
    return text + (", in a transaction" if entry.is_transactional else "")


def _decoded(
    topic: str, field: Literal["key", "value"], record: Record, form: Form, schemas: SchemaStore | None
) -> ShownContent:
    """Return a key or value; decoded by its schema, unless it is to be shown as text or hex."""
    data = record.key if field == "key" else record.value
    frames = frames_of(record.key, record.value, record.headers) if schemas is not None else {}
    if schemas is None or field not in frames or form in ("text", "hex"):
        return content(data, form)
    decoded = schemas.decoded(topic, field, frames[field])
    if decoded.text is None:
        return attrs.evolve(content(data, form), problem=decoded.problem)
    plain = content(decoded.text.encode(), "json")
    return attrs.evolve(
        plain, size=len(data or b""), label=decoded.label, schema_path=_schema_path(topic, field, decoded, schemas)
    )


def _schema_path(topic: str, field: Field, decoded: DecodedContent, schemas: SchemaStore) -> str:
    """Return the address of the page of a content's schema, empty without one."""
    version = None if decoded.schema is None else decoded.schema.version_for(topic, field)
    if version is None or schemas.own is None:
        return ""
    return link(path_of("schemas", version[0]), version=version[1])


def content(data: bytes | None, form: Form, bytes_max: int = SHOWN_BYTES_MAX) -> ShownContent:
    """Return a content in a form; by default JSON as a tree, other texts as text, and hex for what is neither."""
    if data is None:
        return ShownContent("null", "", 0)
    if form == "hex":
        return _hex(data)
    preview = shown(data, "text" if form == "text" else "auto", bytes_max)
    if preview["format"] == "hex":
        return _hex(data)
    text, is_cut = preview["text"], preview["is_cut"]
    tree = json_tree(text) if preview["format"] == "json" and form in ("", "json") else None
    return ShownContent("text" if tree is None else "json", text, len(data), is_cut, tree)


def _hex(data: bytes) -> ShownContent:
    """Return lines of an offset, sixteen bytes, and the characters that can be printed."""
    lines = []
    for start in range(0, min(len(data), _HEX_BYTES_MAX), _HEX_WIDTH):
        row = data[start : start + _HEX_WIDTH]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):{3 * _HEX_WIDTH - 1}}  {characters}")
    return ShownContent("hex", "\n".join(lines), len(data), len(data) > _HEX_BYTES_MAX)


def _again(record: Record) -> RecordForm | None:
    """Return the texts of a form; None for a record that is too long for one, or has headers that none can hold."""
    names, values = [name for name, _ in record.headers], [value for _, value in record.headers]
    if None in values or any(":" in name or not _is_line(name.encode(errors="surrogatepass")) for name in names):
        return None
    contents = [value or b"" for value in values]
    headers_form = TEXT if all(_is_line(content) for content in contents) else BASE64
    lines = [f"{name}: {_written(content, headers_form)}" for name, content in zip(names, contents, strict=True)]
    key, value = record.key or b"", record.value or b""
    key_form, value_form = (TEXT if fits else BASE64 for fits in (_is_line(key), _is_text(value)))
    form = RecordForm(
        "",
        _written(key, key_form),
        key_form,
        _written(value, value_form),
        value_form,
        "\n".join(lines),
        headers_form,
        record.value is None,
        record.key is not None and not key,
    )
    return None if len(form.key) + len(form.value) + len(form.headers) > SHOWN_BYTES_MAX // 2 else form


def _written(content: bytes, form: str) -> str:
    return bytes(content).decode() if form == TEXT else b64encode(content).decode()


def _is_text(content: bytes) -> bool:
    """Return whether a field of a form gives these bytes back."""
    try:
        return _LOST_IN_FORMS.search(bytes(content).decode()) is None
    except UnicodeDecodeError:
        return False


def _is_line(content: bytes) -> bool:
    """Return whether a line of a form, without the space around it, gives these bytes back."""
    if not _is_text(content):
        return False
    text = bytes(content).decode()
    return "\n" not in text and text == text.strip()
