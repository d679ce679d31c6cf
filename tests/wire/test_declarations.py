"""Declarations of messages, their bytes, and values that a version cannot carry."""

from typing import Annotated, Any
from uuid import UUID

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import (
    EncodingError,
    MessageCodec,
    UnsupportedVersion,
    WireError,
    codec,
    request_codec,
    response_codec,
)
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Before,
    Boolean,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableSince,
    Request,
    Since,
    String,
    Tag,
    UInt16,
    UInt32,
    Until,
    Uuid,
    Versions,
    fields_of,
    fresh,
    frozen_struct,
    struct,
)

ID = UUID(int=0xAB)


@frozen_struct
class Point:
    x: Int8 = 0
    y: Annotated[Int8, Since(2)] = 9


@struct
class Sample(Request):
    """A message with everything that a declaration can say."""

    api_key = 999
    versions = Versions(0, 2, flexible=2)

    narrow: UInt16 = 0
    wide: UInt32 = 0
    real: Annotated[Float64, Until(0), IGNORABLE] = 0.5
    flag: Boolean = False
    point: Point = Point()
    corner: Annotated[Point | None, NullableSince(1)] = Point()
    ids: Annotated[list[Uuid], Since(1)] = fresh(list)
    blobs: Annotated[list[Bytes] | None, NullableSince(1)] = fresh(list)
    note: Annotated[String | None, Since(2), Tag(3)] = None
    marks: Annotated[list[Int16], Since(2), Tag(1)] = fresh(list)
    far: Annotated[Int64, Since(2), Tag(2), IGNORABLE] = -1
    key: Annotated[Uuid, Since(2), Tag(200)] = NO_ID


def test_a_field_is_written_before_one_that_is_declared_earlier() -> None:
    @struct
    class Grown(Request):
        api_key = 999
        versions = Versions(0, 1)
        first: Int8 = 0
        last: Int8 = 0
        middle: Annotated[Int8, Since(1), Before("last")] = 9

    assert Grown(1, 2) == Grown(first=1, last=2)
    assert [codec(Grown, version).encode(Grown(1, 2)).hex() for version in (0, 1)] == ["0102", "010902"]
    assert codec(Grown, 1).decode(b"\1\3\2") == Grown(1, 2, 3)


def test_a_declaration_is_read_from_its_annotations() -> None:
    fields = {field.name: field for field in fields_of(Sample)}
    assert (fields["real"].since, fields["real"].until, fields["real"].ignorable) == (0, 0, True)
    assert (fields["ids"].since, fields["ids"].is_array, fields["ids"].ignorable) == (1, True, False)
    assert [fields["blobs"].is_nullable(version) for version in (0, 1)] == [False, True]
    assert [fields["note"].is_nullable(version) for version in (1, 2)] == [False, True]
    assert {name: field.tag for name, field in fields.items() if field.tag is not None} == {
        "note": 3,
        "marks": 1,
        "far": 2,
        "key": 200,
    }


@pytest.mark.parametrize(
    ("message", "version", "written"),
    [
        (
            Sample(0xFFFF, 0xFFFFFFFE, 1.5, True, Point(-1), Point(5), blobs=[b"a", b""]),
            0,
            "ffff fffffffe 3ff8000000000000 01 ff 05 00000002 00000001 61 00000000",
        ),
        (Sample(corner=None, ids=[ID], blobs=None), 1, f"0000 00000000 00 00 ff 00000001 {ID.hex} ffffffff"),
        (Sample(corner=Point(5)), 1, "0000 00000000 00 00 01 05 00000000 00000000"),
        (Sample(point=Point(1, 2), corner=Point(3, 4)), 2, "0000 00000000 00 01 02 00 01 03 04 00 01 01 00"),
        (
            Sample(note="n", marks=[1, -1], far=7, key=ID, blobs=[b"a"]),
            2,
            "0000 00000000 00 00 09 00 01 00 09 00 01 02 02 61"
            f"04 01 05 03 0001 ffff 02 08 0000000000000007 03 02 02 6e c801 10 {ID.hex}",
        ),
        (
            Sample(note="n" * 200),
            2,
            "0000 00000000 00 00 09 00 01 00 09 00 01 01 01 03 ca01 c901" + "6e" * 200,
        ),
    ],
)
def test_encoded_bytes_of_a_version(message: Sample, version: int, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert codec(Sample, version).encode(message) == encoded
    assert codec(Sample, version).decode(encoded) == message


def test_a_field_that_is_no_type_of_the_wire() -> None:
    @struct
    class Wrong(Request):
        api_key = 999
        versions = Versions(0, 0)
        field: dict[str, int] = fresh(dict)

    with pytest.raises(TypeError, match=r"Wrong\.field.*Int32 or String"):
        MessageCodec(Wrong, 0)


def test_a_field_whose_type_is_a_text() -> None:
    """Annotations are texts with `from __future__ import annotations`."""

    @struct
    class Wrong(Request):
        api_key = 999
        versions = Versions(0, 0)
        field: "Int32" = 0

    with pytest.raises(TypeError, match=rf"Wrong\.field: 'Int32' .* annotations`.* from {__name__}"):
        MessageCodec(Wrong, 0)


@pytest.mark.parametrize(
    ("message", "version", "words"),
    [
        (ProduceRequest(transactional_id="t"), 2, "version 2 of ProduceRequest has no transactional_id"),
        (FetchRequest(replica_id=1), 15, "has no replica_id"),
        (FindCoordinatorRequest(coordinator_keys=["g"]), 3, "has no coordinator_keys"),
        (OffsetFetchRequest(require_stable=True, groups=[]), 6, "has no require_stable"),
        (OffsetFetchRequest(topics=None), 1, "null"),
        (ProduceRequest(topic_data=None), 9, "null"),
        (ProduceRequest(acks=1 << 15), 3, "ProduceRequest v3"),
        (ProduceRequest(transactional_id="x" * (1 << 15)), 3, "ProduceRequest v3"),
        (ProduceRequest(topic_data=[TopicProduceData(None)]), 3, "null"),
        (ProduceRequest(topic_data=[TopicProduceData(5)]), 3, "ProduceRequest v3"),
        (ProduceRequest(topic_data=[TopicProduceData("\ud800")]), 3, "ProduceRequest v3"),
        (
            ProduceRequest(topic_data=[TopicProduceData("t", [PartitionProduceData(0, 5)])]),
            3,
            "ProduceRequest v3",
        ),
        (ProduceRequest(topic_data=[PartitionProduceData()]), 3, "ProduceRequest v3"),
    ],
)
def test_values_that_a_version_cannot_carry_are_rejected(message: Any, version: int, words: str) -> None:
    with pytest.raises(EncodingError, match=words):
        codec(type(message), version).encode(message)


def test_ignorable_fields_are_left_out() -> None:
    assert codec(FetchRequest, 0).encode(FetchRequest(session_id=5)) == codec(FetchRequest, 0).encode(FetchRequest())
    assert codec(Sample, 1).encode(Sample(real=2.5)) == codec(Sample, 1).encode(Sample())


@pytest.mark.parametrize(("key", "version"), [(0, -1), (0, 14), (1, 19), (999, 0), (-1, 0), (1 << 15, 0)])
def test_unknown_apis_and_versions(key: int, version: int) -> None:
    for lookup in (request_codec, response_codec):
        with pytest.raises(UnsupportedVersion) as caught:
            lookup(key, version)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_codecs_are_made_once() -> None:
    assert request_codec(0, 9) is request_codec(0, 9)
    assert response_codec(0, 9) is response_codec(0, 9)
    assert request_codec(0, 9).message is ProduceRequest
    assert str(response_codec(0, 9)) == "ProduceResponse v9"


def test_decoding_begins_at_the_given_place() -> None:
    encoded = codec(Sample, 0).encode(Sample(narrow=7))
    assert codec(Sample, 0).decode(b"head" + encoded, 4) == Sample(narrow=7)
    with pytest.raises(WireError):
        codec(Sample, 0).decode(encoded, len(encoded) + 1)


def test_structs_are_compared_and_shown_by_value() -> None:
    assert Sample(narrow=1, marks=[2]) == Sample(narrow=1, marks=[2])
    assert Sample(narrow=1) != Sample(narrow=2)
    assert TopicProduceData("t") != ProduceRequest()
    assert repr(TopicProduceData("t", [PartitionProduceData(7)])) == (
        "TopicProduceData(name='t', partition_data=[PartitionProduceData(index=7, records=None)], "
        "topic_id=UUID('00000000-0000-0000-0000-000000000000'))"
    )
    with pytest.raises(TypeError):
        hash(Sample())


def test_a_default_that_is_shared_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Sample().point.x = 1


def test_an_int32_array_and_a_struct_array_begin_alike() -> None:
    @struct
    class Numbers(Request):
        api_key = 999
        versions = Versions(0, 0)
        numbers: list[Int32] = fresh(list)

    assert codec(Numbers, 0).encode(Numbers([1, -1])).hex(" ", 4) == "00000002 00000001 ffffffff"
