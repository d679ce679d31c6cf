"""The built-in encoders and decoders."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import IDecoder, IEncoder, INamed
from pylogbroker.plugins import serialization as built_in

PAIRS = {
    "bytes": (built_in.bytes_encoder, built_in.bytes_decoder),
    "utf-8": (built_in.text_encoder, built_in.text_decoder),
    "json": (built_in.json_encoder, built_in.json_decoder),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize("name", PAIRS)
def test_serializers_provide_their_interfaces(name: str) -> None:
    encoder, decoder = PAIRS[name]
    for plugin, interface in (encoder, IEncoder), (decoder, IDecoder):
        assert verifyObject(interface, plugin)
        assert verifyObject(INamed, plugin)
        assert plugin.name == name
    assert encoder.to_message(None) is None
    assert decoder.from_message(None) is None


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("bytes", b"\0\xff", b"\0\xff"),
        ("bytes", b"", b""),
        ("bytes", bytearray(b"ab"), b"ab"),
        ("bytes", memoryview(b"abcd")[::2], b"ac"),
        ("utf-8", "é€😀", b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
        ("utf-8", "", b""),
        ("json", {"é": [1, 2.5, None, True]}, b'{"\xc3\xa9":[1,2.5,null,true]}'),
        ("json", "a", b'"a"'),
        ("json", [], b"[]"),
    ],
)
def test_messages(name: str, data: Any, message: bytes) -> None:
    encoder, decoder = PAIRS[name]
    made = encoder.to_message(data)
    assert (type(made), made) == (bytes, message)
    assert decoder.from_message(message) == data


@pytest.mark.parametrize(
    ("name", "data", "error", "what"),
    [
        ("bytes", "text", TypeError, "expected bytes, got str; use the encoder utf-8 or json for other types"),
        ("bytes", 7, TypeError, "expected bytes, got int"),
        ("utf-8", b"text", TypeError, "expected str, got bytes"),
        ("utf-8", "\ud800", UnicodeEncodeError, "surrogates"),
        ("json", object(), TypeError, "not JSON serializable"),
        ("json", float("nan"), ValueError, "not JSON compliant"),
        ("json", "\ud800", UnicodeEncodeError, "surrogates"),
    ],
)
def test_values_that_cannot_be_encoded_are_rejected(name: str, data: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        PAIRS[name][0].to_message(data)


@pytest.mark.parametrize(
    ("name", "message", "error"),
    [("utf-8", b"\xff", UnicodeDecodeError), ("json", b"\xff", UnicodeDecodeError), ("json", b"{", ValueError)],
)
def test_messages_that_cannot_be_decoded_are_rejected(name: str, message: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        PAIRS[name][1].from_message(message)


@given(JSON.filter(lambda data: data is not None))
def test_json_is_json(data: Any) -> None:
    message = built_in.json_encoder.to_message(data)
    assert message is not None
    assert json.loads(message) == data
    assert built_in.json_decoder.from_message(json.dumps(data, indent=2).encode()) == data


@given(st.text(st.characters(codec="utf-8")))
def test_text_is_text(data: str) -> None:
    assert built_in.text_decoder.from_message(built_in.text_encoder.to_message(data)) == data
