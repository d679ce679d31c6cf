"""Requests and responses that Apache brokers sent each other: bytes, and values that another decoder read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from pylogbroker.wire import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.schema import fields_of

CAPTURED = Path(__file__).parents[1] / "captured" / "requests.jsonl"
SAMPLES: list[dict[str, Any]] = list(map(json.loads, CAPTURED.read_text().splitlines()))


def name_of(sample: dict[str, Any]) -> str:
    return f"{sample['api']}-{sample['version']}-{sample['kind']}-{sample['corr']}"


def assert_has(message: Any, values: dict[str, Any]) -> None:
    """Compare with the values by Kafka's names; fields that are not named have their default."""
    named = {re.sub(r" \(tag \d+\)$", "", name).lower(): value for name, value in values.items()}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name.replace("_", "") in named:
            assert_is(value, named.pop(field.name.replace("_", "")))
        else:
            assert value == field.default, field.name
    assert named == {}


def assert_is(value: Any, expected: Any) -> None:
    if attrs.has(type(value)):
        assert_has(value, expected)
    elif isinstance(value, list):
        assert len(value) == len(expected)
        for each, part in zip(value, expected, strict=True):
            assert_is(each, part)
    elif isinstance(value, memoryview):
        size, start = re.fullmatch(r"<(\d+) bytes ([0-9a-f]*)(?:\.\.\.)?>", expected).groups()
        assert (len(value), value.hex()[: len(start)]) == (int(size), start)
    else:
        assert (str(value) if isinstance(value, UUID) else value) == expected


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_a_captured_frame(sample: dict[str, Any]) -> None:
    key, version, frame = sample["key"], sample["version"], memoryview(bytes.fromhex(sample["hex"]))
    if sample["kind"] == "req":
        header, position = decode_request_header(frame)
        assert header == RequestHeader(key, version, sample["corr"], sample["client"])
        message = request_codec(key, version).decode(frame, position)
        written = request_codec(key, version).frame(sample["corr"], sample["client"], message)
    else:
        correlation_id, position = decode_response_header(frame, key, version)
        assert correlation_id == sample["corr"]
        message = response_codec(key, version).decode(frame, position)
        written = response_codec(key, version).frame(correlation_id, message)
    assert_has(message, sample["decoded"])
    assert b"".join(written)[4:] == frame
