"""Write rows to a Parquet file, with metadata in its footer.

    pylogbroker.*    value
    start_offset     first offset that the file covers
    next_offset      offset after the last one
    last_offset      last offset read, whether or not it became a row
    since            rows before it, in ms, were dropped; empty if none were
    schema           columns, as text

A row group holds 32 MB or 2^20 rows. All columns but `value` and `key` use dictionaries: those seldom repeat, and
searching for repetitions costs more than writing.
"""

from __future__ import annotations

import base64
import io
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.spark.loading.manifest import ManifestEntry
from pylogbroker.spark.loading.store import Store

FILE_SIZE: Final = 128 << 20
COMPRESSION: Final = "snappy"

_PREFIX: Final = "pylogbroker."
_PLAIN: Final = ("key", "value")
_RISING: Final = ("offset", "timestamp")
_ROW_GROUP_BYTES: Final = 32 << 20
_ROW_GROUP_ROWS: Final = 1 << 20
_PAGE_BYTES: Final = 128 << 10  # compressed while it is in the processor's cache


@attrs.frozen
class FileLayout:
    file_size: int = FILE_SIZE
    """Approximate bytes."""
    compression: str = COMPRESSION


class FileWriter:
    def __init__(self, file: pa.NativeFile, schema: pa.Schema, layout: FileLayout) -> None:
        self.records = 0
        self._schema = schema
        self._file = file
        self._writer = pq.ParquetWriter(
            file, schema, compression=layout.compression, data_page_size=_PAGE_BYTES, **_encodings(schema)
        )
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = self._held_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        self._held_rows += rows.num_rows
        self.records += rows.num_rows
        if self._held_bytes >= _ROW_GROUP_BYTES or self._held_rows >= _ROW_GROUP_ROWS:
            self._write()

    @property
    def size(self) -> int:
        """Bytes written, without the incomplete row group."""
        return int(self._file.tell())

    def finish(self, metadata: dict[str, str]) -> int:
        """Write the rest and the footer; return the size. The file stays open."""
        self._write()
        self._writer.add_key_value_metadata(metadata)
        self._writer.close()
        return self.size

    def abandon(self) -> None:
        self._held.clear()
        self._writer.is_open = False

    def _write(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, self._schema)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._held = []
        self._held_bytes = self._held_rows = 0


def metadata_of(entry: ManifestEntry, topic_id: str, schema: str) -> dict[str, str]:
    metadata = {
        "topic": entry.topic,
        "topic_id": topic_id,
        "partition": entry.partition,
        "start_offset": entry.start,
        "next_offset": entry.end,
        "last_offset": entry.end - 1,
        "since": "" if entry.since is None else entry.since,
        "generation": entry.generation,
        "schema": schema,
    }
    return {_PREFIX + name: str(value) for name, value in metadata.items()}


@attrs.frozen
class Footer:
    entry: ManifestEntry
    topic_id: str
    schema: str


def read_footer(store: Store, path: str, size: int) -> Footer | None:
    """Return None if the file is foreign or deleted."""
    try:
        with store.filesystem.open_input_file(store.path(path)) as file:
            footer = pq.read_metadata(file)
    except (FileNotFoundError, pa.ArrowInvalid):
        return None
    texts = {key.decode(): value.decode() for key, value in (footer.metadata or {}).items() if key != b"ARROW:schema"}
    try:
        entry = ManifestEntry(
            topic=texts[_PREFIX + "topic"],
            partition=int(texts[_PREFIX + "partition"]),
            start=int(texts[_PREFIX + "start_offset"]),
            end=int(texts[_PREFIX + "next_offset"]),
            generation=int(texts[_PREFIX + "generation"]),
            path=path,
            records=footer.num_rows,
            bytes=size,
            since=int(texts[_PREFIX + "since"]) if texts[_PREFIX + "since"] else None,
        )
        return Footer(entry, texts[_PREFIX + "topic_id"], texts[_PREFIX + "schema"])
    except (KeyError, ValueError):
        return None


def text_of(schema: pa.Schema) -> str:
    """Return the columns as text, equal for equal schemas."""
    return "\n".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def packed(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def unpacked(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Choose dictionaries; deltas for rising values; neither, nor statistics, for keys and values."""
    rising = {name for name in _RISING if name in schema.names and _is_64_bits(schema.field(name).type)}
    plain = {name for name in _PLAIN if name in schema.names}
    leaves = _leaves(schema)
    dictionaries = [path for path in leaves if path not in rising | plain]
    return {
        "use_dictionary": dictionaries or False,
        "column_encoding": dict.fromkeys(sorted(rising), "DELTA_BINARY_PACKED") or None,
        "write_statistics": [path for path in leaves if path not in plain] or False,
    }


def _leaves(schema: pa.Schema) -> list[str]:
    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty)
    columns = pq.ParquetFile(empty).schema
    return [columns.column(number).path for number in range(len(columns))]


def _is_64_bits(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))
