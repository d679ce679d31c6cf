"""Records of groups of Kafka Streams beside Apache Kafka 4.4: schemas and bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pylogbroker.groups.streams import record_schema as schema
from pylogbroker.groups.streams.group import StreamsRecordKind
from pylogbroker.wire import WireMessage
from pylogbroker.wire.versioned_messages import decode, encode
from tests.support.oracle_answers import OracleAnswers
from tests.wire.test_java_messages import PROGRAMS, Filling, as_json, lower_case
from tests.wire.test_schemas import Schemas, joined_rows, rows_of

VALUES: dict[type[WireMessage], str] = {
    schema.StreamsGroupValue: "StreamsGroupMetadataValue",
    schema.StreamsMemberValue: "StreamsGroupMemberMetadataValue",
    schema.StreamsTargetValue: "StreamsGroupTargetAssignmentMetadataValue",
    schema.StreamsMemberTargetValue: "StreamsGroupTargetAssignmentMemberValue",
    schema.StreamsCurrentValue: "StreamsGroupCurrentMemberAssignmentValue",
    schema.StreamsTopologyValue: "StreamsGroupTopologyValue",
}
KEYS: dict[type[schema.StreamsKey], str] = {
    schema.StreamsGroupKey: "StreamsGroupMetadataKey",
    schema.StreamsMemberKey: "StreamsGroupMemberMetadataKey",
    schema.StreamsTargetKey: "StreamsGroupTargetAssignmentMetadataKey",
    schema.StreamsMemberTargetKey: "StreamsGroupTargetAssignmentMemberKey",
    schema.StreamsCurrentKey: "StreamsGroupCurrentMemberAssignmentKey",
    schema.StreamsTopologyKey: "StreamsGroupTopologyKey",
}


def kafkas_rows() -> dict[str, list[str]]:
    schemas = Schemas("kafka-4.4", "kafka-group-coordinator-4")
    return {name: list(joined_rows(name, None, schemas.get(name))) for name in VALUES.values()}


def kafkas_keys() -> dict[str, int]:
    """Return the numbers of the keys, which are the versions that they begin with."""
    schemas = Schemas("kafka-4.4", "kafka-group-coordinator-4")
    keys = {name: schemas.get(name) for name in KEYS.values()}
    return {name: key["apiKey"] for name, key in keys.items() if key is not None}


def examples() -> Iterator[tuple[str, WireMessage]]:
    for elements, nulls in ((2, False), (1, True), (0, False)):
        for kind, name in VALUES.items():
            yield name, Filling(elements, nulls).message(kind, 0)


def test_declarations_are_kafkas(oracle: OracleAnswers) -> None:
    theirs = oracle.answer("streams-group-records", "\n".join(VALUES.values()), kafkas_rows)
    for kind, name in VALUES.items():
        assert rows_of(kind) == theirs[name], name


def test_keys_have_kafkas_numbers(oracle: OracleAnswers) -> None:
    theirs = oracle.answer("streams-group-keys", "\n".join(KEYS.values()), kafkas_keys)
    assert {name: kind.versions.first for kind, name in KEYS.items()} == theirs


def test_kafka_reads_and_writes_them_alike(oracle: OracleAnswers) -> None:
    values = list(examples())
    question = "".join(f"{name} 0 {encode(value, 0)[2:].hex()}\n" for name, value in values)
    answers = oracle.answer(
        "streams-group-bytes", question, lambda: PROGRAMS["kafka-4.4"].run(input=question).stdout.splitlines()
    )
    for (_, value), answer in zip(values, answers, strict=True):
        written, _, content = answer.partition(" ")
        assert written == encode(value, 0)[2:].hex()
        assert lower_case(json.loads(content)) == as_json(value, 0)
        assert decode(type(value), encode(value, 0)) == value


def test_keys_of_other_records_are_none() -> None:
    assert schema.decode_key(bytes.fromhex("0003000167")) is None
    assert schema.decode_key(bytes.fromhex("0012000167")) is None  # 18, which Kafka does not use any more


def test_key_is_read_as_it_was_written() -> None:
    written = schema.encode_key(StreamsRecordKind.CURRENT, "g", "m")
    assert written.hex() == "00160001670001" + "6d"
    assert schema.decode_key(written) == schema.StreamsCurrentKey("g", "m")
