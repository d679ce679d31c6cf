"""Archives with decoded columns: schemas that evolve, and what cannot be decoded as dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyiceberg.catalog.sql import SqlCatalog

from pylogbroker.records import Record, build
from pylogbroker.schemas.blocking import blocking_client
from pylogbroker.schemas.codecs import codec_of
from pylogbroker.schemas.endpoint import RegistryEndpoint
from pylogbroker.schemas.errors import RegistryUnavailable
from pylogbroker.schemas.framing import framed
from pylogbroker.schemas.registry_client import blocking
from pylogbroker.schemas.values import AVRO, JSON, PROTOBUF, Schema
from pylogbroker.table.archive import iceberg
from pylogbroker.table.archive.decoding import archived_type, extended
from pylogbroker.table.archive.jobs import Archived, ArchiveJob
from pylogbroker.table.archive.writer import archive
from pylogbroker.testing import Broker
from tests.table.test_archive_writer import LogOnDisk

TIME_MS = 1_767_355_200_000


def avro_record(*fields: Any) -> Schema:
    return Schema(json.dumps({"type": "record", "name": "R", "fields": list(fields)}), AVRO)


def proto_message(*fields: str) -> Schema:
    return Schema(f'syntax = "proto3"; message R {{ {" ".join(fields)} }}', PROTOBUF)


def json_object(**properties: str) -> Schema:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return Schema(json.dumps({"type": "object", "properties": kinds}), JSON)


ADDED = {"name": "b", "type": ["null", "string"], "default": None}
VERSIONS = {
    "avro": (
        avro_record({"name": "a", "type": "int"}),
        avro_record({"name": "a", "type": "long"}, ADDED),
        avro_record({"name": "a", "type": "string"}),
    ),
    "protobuf": (
        proto_message("int32 a = 1;"),
        proto_message("int64 a = 1;", "string b = 2;"),
        proto_message("string a = 1;"),
    ),
    "json-schema": (json_object(a="integer"), json_object(a="integer", b="string"), json_object(a="string")),
}


def lone_schema(form: str, subject: str) -> Schema:
    """Return a schema that no other subject has."""
    name = subject.replace("-", "_")
    if form == "avro":
        return avro_record({"name": name, "type": "int"})
    return proto_message(f"int32 {name} = 1;") if form == "protobuf" else json_object(**{name: "integer"})


@attrs.frozen
class Fixture:
    """A log whose values have schemas of a registry, and an archive of it."""

    log: LogOnDisk
    registry: str
    subject: str
    catalog: SqlCatalog | None

    @property
    def root(self) -> str:
        return str(self.log.archive) if self.catalog is None else "iceberg://local/logs.records"

    def id_of(self, schema: Schema, subject: str = "") -> int:
        endpoint = RegistryEndpoint.of({"schema.registry.url": self.registry})
        assert endpoint is not None
        return int(blocking(blocking_client(endpoint).register(subject or self.subject, schema)))

    def content(self, schema: Schema, value: dict[str, Any]) -> bytes:
        return framed(self.id_of(schema), codec_of(schema, {}).encode(json.dumps(value)))

    def add(self, *values: bytes | None) -> None:
        start = self.log.segments[-1].end if self.log.segments else 0
        records = [Record(start + n, TIME_MS, b"k", value) for n, value in enumerate(values)]
        self.log.add(build(records, base_offset=start), start=start, end=start + len(values))

    def archive(self, form: str, registry: str | None = None) -> Archived:
        decoding = {"value": form, "schema.registry.url": registry or self.registry}
        job: ArchiveJob = attrs.evolve(self.log.job(), root=self.root, decoding=decoding)
        return archive(job)

    def rows(self) -> list[dict[str, Any]]:
        if self.catalog is not None:
            return self._of_table("logs.records")
        pattern = f"{self.log.archive}/records/**/*.parquet"
        query = f"FROM read_parquet('{pattern}', union_by_name = true) ORDER BY \"offset\""
        relation: Any = duckdb.sql(query)
        return relation.to_arrow_table().to_pylist()  # type: ignore[no-any-return]

    def dead_letters(self) -> list[dict[str, Any]]:
        return self.log.dead_letters() if self.catalog is None else self._of_table("logs.records_dead_letters")

    def _of_table(self, name: str) -> list[dict[str, Any]]:
        assert self.catalog is not None
        read: list[dict[str, Any]] = self.catalog.load_table(name).scan().to_arrow().sort_by("offset").to_pylist()
        return read


@pytest.fixture(params=["directory", "iceberg"])
def archived(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    broker: Broker,
    fresh_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Fixture:
    catalog = None
    if request.param == "iceberg":
        (tmp_path / "warehouse").mkdir()
        catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
        monkeypatch.setattr(iceberg, "load_catalog", {"local": catalog}.__getitem__)
    registry = str(broker.schema_registry.url)
    subject = fresh_name()
    SchemaRegistryClient({"url": registry}).set_compatibility(subject, "NONE")
    return Fixture(LogOnDisk(tmp_path), registry, subject, catalog)


@pytest.mark.parametrize("form", VERSIONS)
def test_schemas_that_evolve(archived: Fixture, form: str) -> None:
    first, second, other = VERSIONS[form]
    archived.add(archived.content(first, {"a": 1}), None)
    assert archived.archive(form) == Archived(2, files=1, records=2)
    archived.add(archived.content(second, {"a": 2, "b": "x"}), archived.content(first, {"a": 3}))
    archived.add(archived.content(other, {"a": "five"}), archived.content(other, {"a": "6"}))
    assert archived.archive(form) == Archived(6, files=2, records=4, undecodable=1)
    decoded = [row["value_decoded"] for row in archived.rows()]
    assert [row and row["a"] for row in decoded] == [1, None, 2, 3, None, 6]
    assert [row and row.get("b") for row in decoded] == [None, None, "x", None, None, None]
    [letter] = archived.dead_letters()
    assert (letter["offset"], letter["field"], letter["schema"]) == (4, "value", str(archived.id_of(other)))
    assert letter["reason"] == "it does not fit the column's type: a: 'five' is no whole number"
    assert letter["content"] == archived.rows()[4]["value"] == archived.content(other, {"a": "five"})


@pytest.mark.parametrize("form", VERSIONS)
def test_contents_that_cannot_be_decoded_are_dead_letters(archived: Fixture, form: str) -> None:
    schema = VERSIONS[form][0]
    gone = framed(archived.id_of(lone_schema(form, archived.subject), f"{archived.subject}-deleted"), b"\0{}")
    client = SchemaRegistryClient({"url": archived.registry})
    client.delete_subject(f"{archived.subject}-deleted")
    client.delete_subject(f"{archived.subject}-deleted", permanent=True)
    cut = archived.content(schema, {"a": 300})[:-1]
    archived.add(archived.content(schema, {"a": 1}), gone, b"plain", cut)
    assert archived.archive(form) == Archived(4, files=1, records=4, undecodable=3)
    assert [row["value_decoded"] for row in archived.rows()] == [{"a": 1}, None, None, None]
    letters = archived.dead_letters()
    gone_id = int.from_bytes(gone[1:5], "big")
    assert [letter["offset"] for letter in letters] == [1, 2, 3]
    assert [letter["content"] for letter in letters] == [gone, b"plain", cut]
    assert [letter["schema"] for letter in letters] == [str(gone_id), None, str(archived.id_of(schema))]
    reasons = [letter["reason"] for letter in letters]
    assert f"schema {gone_id}" in reasons[0]
    assert "no schema" in reasons[1]
    assert "does not fit schema" in reasons[2]


def test_a_registry_that_is_away_archives_nothing(archived: Fixture) -> None:
    archived.add(archived.content(VERSIONS["avro"][0], {"a": 1}))
    with pytest.raises(RegistryUnavailable):
        archived.archive("avro", "http://127.0.0.1:1")
    assert archived.archive("avro") == Archived(1, files=1, records=1)


def test_decoding_begins_and_ends_with_its_option(archived: Fixture) -> None:
    schema = VERSIONS["avro"][0]
    archived.add(archived.content(schema, {"a": 1}))
    archive(attrs.evolve(archived.log.job(), root=archived.root))
    archived.add(archived.content(schema, {"a": 2}))
    archived.archive("avro")
    archived.add(archived.content(schema, {"a": 3}))
    archive(attrs.evolve(archived.log.job(), root=archived.root))
    assert [row["value_decoded"] for row in archived.rows()] == [None, {"a": 2}, None]


def test_another_partition_has_the_same_types(archived: Fixture) -> None:
    schema = VERSIONS["avro"][0]
    archived.add(archived.content(schema, {"a": 1}))
    archived.archive("avro")
    archived.log.segments.clear()
    archived.add(archived.content(VERSIONS["avro"][2], {"a": "text"}))
    decoding = {"value": "avro", "schema.registry.url": archived.registry}
    job = attrs.evolve(archived.log.job(), root=archived.root, partition=4, decoding=decoding)
    assert archive(job).undecodable == 1


def test_types_of_an_archive() -> None:
    wide = archived_type(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float32())), ("c", pa.uint64())]))
    assert wide == pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64())), ("c", pa.decimal128(20, 0))])
    assert archived_type(pa.timestamp("ns", tz="UTC")) == pa.timestamp("us", tz="UTC")
    more = pa.struct([("d", pa.struct([("e", pa.string())])), ("a", pa.string())])
    assert extended(wide, more) == pa.struct([*wide, ("d", pa.struct([("e", pa.string())]))])


@pytest.mark.parametrize("archived", ["directory"], indirect=True)
def test_files_have_the_types_of_values(archived: Fixture) -> None:
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}
    schema = avro_record(at)
    archived.add(archived.content(schema, {"at": "2026-01-02T03:04:05.123456789Z"}))
    assert archived.archive("avro").undecodable == 0
    [path] = archived.log.files()
    assert pq.read_schema(path).field("value_decoded").type == pa.struct([("at", pa.timestamp("us", tz="UTC"))])
    assert archived.rows()[0]["value_decoded"]["at"].isoformat() == "2026-01-02T03:04:05.123456+00:00"
