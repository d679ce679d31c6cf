"""Messages that no Python implementation has, beside Kafka: its bytes for them, and the values that it reads."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from pylogbroker.wire import SUPPORTED, WireMessage, codec
from pylogbroker.wire.api_table import LAST_IN_3_9
from pylogbroker.wire.schema import Field, FieldType
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers
from tests.wire.kafka_apis import declared, kafkas_cases
from tests.wire.reference_codecs import PEERS, present

RELEASES = ("kafka-3.9", "kafka-4.4")
PROGRAMS = {release: Program(Path(__file__).with_name("Messages.java"), release) for release in RELEASES}


@attrs.frozen
class Example:
    """A message of one version, all of whose values differ."""

    message: WireMessage
    version: int

    @property
    def release(self) -> str:
        """The release that has the version."""
        newest = LAST_IN_3_9.get(SUPPORTED.declared[self.message.api_key].module)
        return RELEASES[newest is not None and self.version > newest]

    @property
    def encoded(self) -> bytes:
        return codec(type(self.message), self.version).encode(self.message)

    @property
    def line(self) -> str:
        return f"{type(self.message).__name__} {self.version} {self.encoded.hex()}\n"


class Filling:
    """Fills messages with different values; nullable fields have null if `nulls`, arrays `elements` elements."""

    def __init__(self, elements: int, nulls: bool) -> None:
        self._elements = elements
        self._nulls = nulls
        self._numbers = itertools.count(1)

    def message(self, cls: type, version: int) -> Any:
        return cls(**{field.name: self._value(field, version) for field in present(cls, version)})

    def _value(self, field: Field, version: int) -> Any:
        if self._nulls and field.is_nullable(version):
            return None
        if field.is_array:
            return [self._single(field.kind, version) for _ in range(self._elements)]
        return self._single(field.kind, version)

    def _single(self, kind: FieldType | type, version: int) -> Any:
        if isinstance(kind, type):
            return self.message(kind, version)
        number = next(self._numbers)
        match kind:
            case FieldType.BOOLEAN:
                return number % 2 == 0
            case FieldType.STRING | FieldType.ERROR_TEXT:
                return f"text {number}"
            case FieldType.BYTES:
                return f"bytes {number}".encode()
            case FieldType.UUID:
                return UUID(int=number << 100 | number)
            case FieldType.INT8:
                return number % 128
        return number


def without_peers() -> list[tuple[str, int]]:
    return [
        (name, version)
        for name, version in kafkas_cases()
        if not any(peer.knows(declared(name), version) for peer in PEERS.values())
    ]


def examples() -> Iterator[Example]:
    for name, version in without_peers():
        for elements, nulls in ((2, False), (1, True), (0, False)):
            yield Example(Filling(elements, nulls).message(declared(name), version), version)


def as_json(message: Any, version: int) -> dict[str, Any]:
    """Return the values as Kafka's JSON has them, by lower-case names."""
    values: dict[str, Any] = {}
    for field in present(type(message), version):
        value = getattr(message, field.name)
        if field.tag is None or value != field.default:
            values[field.name.replace("_", "")] = _plain(value, version)
    return values


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_plain(each, version) for each in value]
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(value).decode()
    return as_json(value, version) if attrs.has(type(value)) else value


def lower_case(value: Any) -> Any:
    """Return a JSON value with lower-case keys."""
    if isinstance(value, dict):
        return {name.lower(): lower_case(each) for name, each in value.items()}
    return [lower_case(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("release", RELEASES)
def test_kafka_reads_and_writes_them_alike(release: str, oracle: OracleAnswers) -> None:
    asked = [example for example in examples() if example.release == release]
    question = "".join(example.line for example in asked)
    name = f"messages-{release.removeprefix('kafka-')}"
    answers = oracle.answer(name, question, lambda: PROGRAMS[release].run(input=question).stdout.splitlines())
    assert len(asked) == len(answers) > 15
    for example, answer in zip(asked, answers, strict=True):
        written, _, values = answer.partition(" ")
        assert written == example.encoded.hex()
        assert lower_case(json.loads(values)) == as_json(example.message, example.version)
        assert codec(type(example.message), example.version).decode(example.encoded) == example.message
