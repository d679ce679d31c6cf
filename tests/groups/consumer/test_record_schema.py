"""Records of members of consumer groups, in the bytes that the coordinator of Apache Kafka 4.4 writes."""

from __future__ import annotations

import pytest

from pylogbroker.groups.consumer.record_schema import (
    ClassicMemberMetadata,
    ClassicProtocol,
    MemberValue,
    decode,
    encode,
)
from pylogbroker.groups.consumer.replay import _member as replayed_member

PLAIN = b"\0\0\0\0\x08rdkafka\x0b/127.0.0.1\x02\x07orders\x01\0\x04\x93\xe0\0"
NOT_CLASSIC = PLAIN + b"\1\0\1\0"
CLASSIC = PLAIN + b"\1\0\x11\1\0\0\x0b\xb8\x02\x06range\3\1\2\0\0"


def value(classic: ClassicMemberMetadata | None) -> MemberValue:
    return MemberValue(None, None, "rdkafka", "/127.0.0.1", ["orders"], "", 300_000, None, classic)


@pytest.mark.parametrize(
    ("stored", "classic"),
    [
        pytest.param(NOT_CLASSIC, None, id="of the new protocol"),
        pytest.param(CLASSIC, ClassicMemberMetadata(3000, [ClassicProtocol("range", b"\1\2")]), id="classic"),
    ],
)
def test_bytes_of_apache_kafka(stored: bytes, classic: ClassicMemberMetadata | None) -> None:
    assert decode(MemberValue, stored) == value(classic)
    assert encode(value(classic), 0) == stored


def test_a_record_without_the_field_is_of_the_new_protocol() -> None:
    """Earlier releases of this project wrote such records."""
    member = replayed_member("m", decode(MemberValue, PLAIN + b"\0"), None)
    assert member.classic is None
