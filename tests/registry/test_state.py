"""State by the records of `_schemas`, in the forms in which several registries write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pylogbroker.registry import records
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.records import SchemaRecord
from pylogbroker.registry.state import LATEST, NotUnderstood, RegistryState
from pylogbroker.schemas.values import Schema, Version

CONFLUENT = r"""
{"keytype":"CONFIG","magic":0}	{"compatibilityLevel":"FULL"}
{"keytype":"NOOP","magic":0}	null
{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}	{"subject":"a","version":1,"id":1,"md5":"X03MO1qnZdYdgyfeuILPmQ==","schemaType":"AVRO","schema":"\"string\"","deleted":false}
{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}	{"subject":"a","version":2,"id":2,"schema":"\"bytes\"","deleted":false}
{"keytype":"MODE","subject":"a","magic":0}	{"subject":"a","mode":"READONLY"}
{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}	{"tenant":"default","context":".c"}
{"keytype":"SCHEMA","subject":":.c:a","version":1,"magic":1}	{"subject":":.c:a","version":1,"id":1,"schemaType":"JSON","references":[{"name":"n","subject":"b","version":1}],"schema":"{}","deleted":false}
{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}	{"subject":"a","version":1}
"""  # noqa: E501 - the records as they are
KARAPACE = r"""
{"subject":"k","version":1,"magic":1,"keytype":"SCHEMA"}	{"subject":"k","version":1,"id":7,"deleted":false,"schema":"\"int\""}
{"subject":"k","magic":0,"keytype":"CONFIG"}	{"compatibilityLevel":"NONE"}
"""  # noqa: E501 - the records as they are


def record(key: object, value: object) -> SchemaRecord:
    return SchemaRecord(json.dumps(key).encode(), None if value is None else json.dumps(value).encode())


def state_of(dump: str) -> RegistryState:
    state = RegistryState()
    for line in dump.strip().splitlines():
        key, value = line.split("\t")
        state.apply(SchemaRecord(key.encode(), None if value == "null" else value.encode()))
    return state


def test_records_of_confluent() -> None:
    state = state_of(CONFLUENT)
    assert (state.level("other"), state.mode("a"), state.mode("b")) == ("FULL", "READONLY", "READWRITE")
    assert [version.version for version in state.versions("a")] == [2]
    assert [version.is_deleted for version in state.versions("a", deleted=True)] == [True, False]
    assert state.contexts == [".", ".c"]
    assert state.schema(1).text == '"string"'
    assert state.schema(1, ":.c:").kind == "JSON"
    assert (state.id_max("a"), state.id_max(":.c:x")) == (2, 1)


def test_records_of_karapace() -> None:
    state = state_of(KARAPACE)
    assert state.version("k", LATEST).id == 7
    assert state.level("k") == "NONE"


def test_a_deletion_covers_keys_in_other_forms() -> None:
    state = state_of(KARAPACE)
    deletion = records.settings_record("k", None)
    keys = [json.loads(each.key) for each in state.with_other_keys(deletion)]
    forms = [each.key for each in state.with_other_keys(deletion)]
    assert keys[0] == keys[1]
    assert forms == [deletion.key, b'{"subject":"k","magic":0,"keytype":"CONFIG"}']
    for each in state.with_other_keys(deletion):
        state.apply(each)
    assert state.with_other_keys(deletion) == [deletion]


def test_subjects_of_contexts_are_found_without_naming_these() -> None:
    state = state_of(CONFLUENT)
    state.apply(records.version_record(Version(":.c:only", 1, 5, Schema('"long"'))))
    assert state.version_in_any_context("only", LATEST).subject == ":.c:only"
    assert state.schema(5).text == '"long"'
    with pytest.raises(RegistryError, match="not found"):
        state.version("only", LATEST)
    assert state.schema(1, "a").text == '"string"'


def test_references_stay_in_their_context() -> None:
    state = state_of(CONFLUENT)
    state.apply(records.version_record(Version(":.c:b", 1, 9, Schema('"long"'))))
    state.apply(records.version_record(Version("b", 1, 9, Schema('"long"'))))
    assert [each.subject for each in state.referrers(state.version(":.c:b", 1))] == [":.c:a"]
    assert state.referrers(state.version("b", 1)) == []


def test_clearing_a_subject_and_a_context() -> None:
    state = state_of(CONFLUENT)
    state.apply(records.subject_clearing("a"))
    assert state.subjects(deleted=True) == [":.c:a"]
    state.apply(records.subject_clearing(":.c:"))
    assert state.subjects(deleted=True) == []


def test_an_id_stays_that_of_its_schema_after_a_permanent_deletion() -> None:
    state = state_of(KARAPACE)
    version = state.version("k", 1)
    state.apply(records.version_tombstone(version))
    assert (state.id_of("k", version.schema), state.id_max("k")) == (7, 7)
    with pytest.raises(RegistryError):
        state.schema(7)


def test_a_second_schema_with_an_id_is_not_accepted() -> None:
    state = state_of(KARAPACE)
    with pytest.raises(NotUnderstood, match="its id 7"):
        state.apply(records.version_record(Version("z", 1, 7, Schema('"other"'))))
    assert state.subjects() == ["k"]
    assert state.schema(7).text == '"int"'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ({"keytype": "ASSOC", "magic": 0}, {}),
        ({"magic": 0}, {}),
        ([], {}),
        ({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 9}, {"id": 1, "schema": "{}"}),
        ({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, {"id": 2**40, "schema": "{}"}),
        ({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, {"id": 1, "schema": 5}),
        ({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, {"schema": "{}"}),
        ({"keytype": "SCHEMA", "subject": 5, "version": 1, "magic": 1}, {"id": 1, "schema": "{}"}),
        ({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}, {"version": "all"}),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": 1}),
        ({"keytype": "MODE", "subject": None, "magic": 0}, {}),
    ],
)
def test_records_that_are_not_understood_change_nothing(key: Any, value: Any) -> None:
    state = RegistryState()
    with pytest.raises(NotUnderstood):
        state.apply(record(key, value))
    assert (state.subjects(deleted=True), state.settings, state.modes) == ([], {}, {})


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 5000, b'{"keytype":'])
def test_keys_that_are_no_json(content: bytes) -> None:
    with pytest.raises(NotUnderstood):
        RegistryState().apply(SchemaRecord(content, b"{}"))


def test_own_records_give_the_same_state() -> None:
    state = RegistryState()
    version = Version("s", 3, 4, Schema("{}", "JSON", (), '{"properties":{"a":"b"}}', '{"domainRules":[]}'))
    for each in (records.version_record(version), records.settings_record(None, {"compatibilityLevel": "FULL"})):
        state.apply(each)
    state.apply(records.mode_record("s", "IMPORT"))
    assert (state.version("s", 3), state.level("s"), state.mode("s")) == (version, "FULL", "IMPORT")
    state.apply(records.version_tombstone(version))
    state.apply(records.mode_record("s", None))
    assert (state.subjects(deleted=True), state.mode("s")) == ([], "READWRITE")
