"""Records of KRaft's metadata log beside Apache Kafka: schemas, bytes, and what its controllers wrote."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from uuid import UUID

import pytest

from pylogbroker.errors import CorruptRecords
from pylogbroker.wire.metadata_records import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
    UnknownMetadataRecord,
    decode_record,
    encode_record,
)
from tests.peers.maven import jars
from tests.support.oracle_answers import OracleAnswers
from tests.wire.test_java_messages import PROGRAMS, Filling, as_json, lower_case
from tests.wire.test_schemas import Schemas, joined_rows, rows_of

KINDS = list(RECORDS.values())
SCHEMA_NAMES = {"ZkMigrationStateRecord": "ZkMigrationRecord"}
"""Records whose schema is in a file of another name."""

WRITTEN = {
    "010c00116d657461646174612e76657273696f6e002100": FeatureLevelRecord("metadata.version", 33),
    "0104000401146d696e2e696e73796e632e7265706c69636173023100": ConfigRecord(4, "", "min.insync.replicas", "1"),
    "01140000": NoOpRecord(),
    "01110000000001000000000000000e010001ff": BrokerRegistrationChangeRecord(1, 14, fenced=-1),
    "010200036b72ec8010fcc0a841158baa29d0415bc61000": TopicRecord("kr", UUID("ec8010fc-c0a8-4115-8baa-29d0415bc610")),
    "01030200000000ec8010fcc0a841158baa29d0415bc610030000000100000009030000000100000009010100000001000000000000000003"
    "fff27c642b770ce58259300951e68fafd64f224b2dc6457e98308efd0c03e8b900": PartitionRecord(
        0,
        UUID("ec8010fc-c0a8-4115-8baa-29d0415bc610"),
        [1, 9],
        [1, 9],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[
            UUID("fff27c64-2b77-0ce5-8259-300951e68faf"),
            UUID("d64f224b-2dc6-457e-9830-8efd0c03e8b9"),
        ],
    ),
}
"""Values that Kafka 4.4 wrote, and what they mean by its own dump tool."""


def rows_of_kafka() -> dict[str, list[str]]:
    older, newer = (Schemas(release, "kafka-metadata-", "metadata") for release in ("kafka-3.9", "kafka-4.4"))
    names = {kind.__name__: SCHEMA_NAMES.get(kind.__name__, kind.__name__) for kind in KINDS}
    return {name: list(joined_rows(name, older.get(file), newer.get(file))) for name, file in names.items()}


def types_of_kafka() -> dict[str, int]:
    """Return the numbers of all records that either release has."""
    types: dict[str, int] = {}
    for release in ("kafka-3.9", "kafka-4.4"):
        [path] = (path for path in jars(release) if path.name.startswith("kafka-metadata-"))
        with zipfile.ZipFile(path) as archive:
            for file in archive.namelist():
                if re.fullmatch(r"common/metadata/\w+\.json", file):
                    schema = json.loads(re.sub(r"^\s*//.*$", "", archive.read(file).decode(), flags=re.M))
                    types[schema["name"]] = schema["apiKey"]
    return types


def examples() -> Iterator[tuple[MetadataRecord, int]]:
    for kind in KINDS:
        for version in range(kind.versions.first, kind.versions.last + 1):
            for elements, nulls in ((2, False), (1, True), (0, False)):
                yield Filling(elements, nulls).message(kind, version), version


def body(record: MetadataRecord, version: int) -> bytes:
    """Return the encoded fields: the head has three numbers below 128."""
    encoded = encode_record(record, version)
    assert tuple(encoded[:3]) == (1, record.type, version)
    return encoded[3:]


def test_declarations_are_kafkas(oracle: OracleAnswers) -> None:
    theirs = oracle.answer("metadata-records", "\n".join(kind.__name__ for kind in KINDS), rows_of_kafka)
    for kind in KINDS:
        assert rows_of(kind) == theirs[kind.__name__], kind


def test_all_records_have_kafkas_numbers(oracle: OracleAnswers) -> None:
    theirs = oracle.answer("metadata-record-types", "types", types_of_kafka)
    assert {kind.__name__: kind.type for kind in KINDS} == theirs


def test_kafka_reads_and_writes_them_alike(oracle: OracleAnswers) -> None:
    asked = list(examples())
    lines = (f"{type(record).__name__} {version} {body(record, version).hex()}\n" for record, version in asked)
    question = "".join(lines)
    answers = oracle.answer(
        "metadata-record-bytes", question, lambda: PROGRAMS["kafka-4.4"].run(input=question).stdout.splitlines()
    )
    assert len(asked) == len(answers) > 100
    for (record, version), answer in zip(asked, answers, strict=True):
        written, _, values = answer.partition(" ")
        assert written == body(record, version).hex()
        assert lower_case(json.loads(values)) == as_json(record, version)
        assert decode_record(encode_record(record, version)) == record


@pytest.mark.parametrize("written", WRITTEN)
def test_records_of_a_controller(written: str) -> None:
    value = bytes.fromhex(written)
    assert decode_record(value) == WRITTEN[written]
    assert encode_record(WRITTEN[written], value[2]) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("021400", "frame version 2"),
        ("011e0000", "type 30"),
        ("01140100", "version 1 of NoOpRecord is not known: the newest one is 0"),
        ("01ffffffff0f0000", "type 4294967295"),
    ],
)
def test_newer_records_are_not_skipped(value: str, reason: str) -> None:
    with pytest.raises(UnknownMetadataRecord, match=reason):
        decode_record(bytes.fromhex(value))


@pytest.mark.parametrize("value", ["", "01", "0114", "01ffffffffffff0000", "0102000a6b72", "01040004ffffffff0f"])
def test_damaged_records_are_rejected(value: str) -> None:
    with pytest.raises(CorruptRecords) as rejected:
        decode_record(bytes.fromhex(value))
    assert not isinstance(rejected.value, UnknownMetadataRecord)
