"""Bytes that are no message: always `WireError`, and nothing is made as large as it claims to be."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest

from pylogbroker.wire import NO_ID, EncodingError, MessageCodec, WireError, WireMessage, codec, request_codec
from pylogbroker.wire.headers import skip_tagged
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.budget import Budget
from tests.support.examples import examples
from tests.wire.kafka_apis import declared, names, versions
from tests.wire.random_messages import messages

CUTS_MAX = 40


@pytest.mark.parametrize("name", names())
def test_a_cut_off_message(name: str, budget: Budget) -> None:
    for version in versions(name):
        check_cuts(declared(name), version, budget.chance(f"cuts {name} {version}"))


def check_cuts(cls: type[WireMessage], version: int, chance: Random) -> None:
    for message in messages(cls, version, examples(20, quick=3), chance):
        encoded = codec(cls, version).encode(message)
        for end in chance.sample(range(len(encoded)), min(len(encoded), CUTS_MAX)):
            with pytest.raises(WireError):
                codec(cls, version).decode(encoded[:end])
        with pytest.raises(WireError):
            codec(cls, version).decode(encoded + b"\0")


@pytest.mark.parametrize("name", names())
def test_flipped_bits_and_noise(name: str, budget: Budget) -> None:
    for version in versions(name):
        check_flips(declared(name), version, budget.chance(f"flips {name} {version}"))


def check_flips(cls: type[WireMessage], version: int, chance: Random) -> None:
    for message in messages(cls, version, examples(20, quick=3), chance):
        encoded = codec(cls, version).encode(message)
        for _ in range(examples(40, quick=5) if encoded else 0):
            flipped = bytearray(encoded)
            for _ in range(chance.randint(1, 3)):
                flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            decode_or_reject(codec(cls, version), flipped)
        decode_or_reject(codec(cls, version), chance.randbytes(40))


def decode_or_reject(ours: MessageCodec[Any], encoded: bytes | bytearray) -> None:
    """Decode, or raise the one error; a decoded message can be encoded in its version."""
    try:
        message = ours.decode(encoded)
    except WireError:
        return
    written = ours.encode(message)
    again = ours.decode(written)
    assert again == message or ours.encode(again) == written  # NaN is not equal to itself


HUGE = "7fffffff"
HUGE_COMPACT = "ffffffff0f"
CLAIMS = {
    "topics": (0, 0, f"0001 00000000 {HUGE} 0001 74"),
    "a topic's name": (0, 0, "0001 00000000 00000001 7fff 74"),
    "records": (0, 0, f"0001 00000000 00000001 0001 74 00000001 00000000 {HUGE} 00"),
    "compact topics": (0, 9, f"00 0001 00000000 {HUGE_COMPACT} 02 74"),
    "a compact name": (0, 9, f"00 0001 00000000 02 {HUGE_COMPACT} 74"),
    "compact records": (0, 9, f"00 0001 00000000 02 02 74 02 00000000 {HUGE_COMPACT} 00"),
    "tagged fields": (18, 3, f"01 01 {HUGE_COMPACT}"),
    "a tagged field": (18, 3, f"01 01 01 05 {HUGE_COMPACT}"),
    "numbers": (35, 0, f"00000001 0001 74 {HUGE} 00000001"),
    "compact numbers": (35, 2, f"02 02 74 {HUGE_COMPACT} 00000001"),
    "strings": (15, 0, f"{HUGE} 0001 74"),
    "bytes": (14, 0, f"0001 67 00000001 0001 6d 00000001 0001 6d {HUGE} 00"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claimed_size_costs_nothing(claim: str) -> None:
    key, version, written = CLAIMS[claim]
    ours = request_codec(key, version)
    encoded = bytes.fromhex(written)
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            ours.decode(encoded)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


ELEMENTS_MAX = 50_000


def metadata_of(count: int) -> bytes:
    """A request for the metadata of topics without a name."""
    return request_codec(3, 1).encode(MetadataRequest([MetadataRequestTopic(name="")] * count))


def test_the_elements_of_a_request_are_limited() -> None:
    assert len(request_codec(3, 1).decode(metadata_of(ELEMENTS_MAX)).topics) == ELEMENTS_MAX
    with pytest.raises(WireError, match="50000 elements"):
        request_codec(3, 1).decode(metadata_of(ELEMENTS_MAX + 1))


@pytest.mark.parametrize("version", [0, 6])
def test_the_elements_of_all_arrays_count_together(version: int) -> None:
    half = OffsetFetchRequestTopic("t", list(range(ELEMENTS_MAX // 2 - 1)))
    allowed = OffsetFetchRequest("g", [half, half])
    assert request_codec(9, version).decode(request_codec(9, version).encode(allowed)) == allowed
    with pytest.raises(WireError, match="elements"):
        request_codec(9, version).decode(
            request_codec(9, version).encode(OffsetFetchRequest("g", [half, half, OffsetFetchRequestTopic("t", [0])]))
        )


def test_a_controller_may_name_more_partitions_than_a_client() -> None:
    state = UpdateMetadataPartitionState(isr=[1, 2, 3], replicas=[1, 2, 3])
    cluster = UpdateMetadataRequest(topic_states=[UpdateMetadataTopicState("t", partition_states=[state] * 20_000)])
    codec = request_codec(6, 8)
    assert codec.decode(codec.encode(cluster)) == cluster
    state.isr = [1] * 1_000_000
    with pytest.raises(WireError, match="1000000 elements"):
        codec.decode(codec.encode(UpdateMetadataRequest(topic_states=[UpdateMetadataTopicState("t", NO_ID, [state])])))


def test_ten_thousand_topics_in_one_request_are_no_excess() -> None:
    names = [f"topic-{number}" for number in range(10_000)]
    lookup = ListOffsetsRequest(topics=[ListOffsetsTopic(name, [ListOffsetsPartition()]) for name in names])
    fetch = FetchRequest(
        topics=[FetchTopic(topic=name, partitions=[FetchPartition()]) for name in names],
        forgotten_topics_data=[ForgottenTopic(topic=name, partitions=[0]) for name in names],
    )
    for request, key, version in ((lookup, 2, 9), (fetch, 1, 12)):
        assert request_codec(key, version).decode(request_codec(key, version).encode(request)) == request


def test_responses_have_no_such_limit() -> None:
    answer = MetadataResponse(topics=[MetadataResponseTopic(name="t")] * (ELEMENTS_MAX + 1))
    assert len(codec(MetadataResponse, 1).decode(codec(MetadataResponse, 1).encode(answer)).topics) == ELEMENTS_MAX + 1


def test_the_tagged_fields_of_all_structs_count_together() -> None:
    tags = bytes([120]) + b"".join(bytes([tag, 0]) for tag in range(120))
    topic = bytes([2]) + b"t" + tags  # of a request for metadata: a name and the tagged fields
    start, end = bytes([0xF5, 0x03]), bytes([0, 0, 0, 0])  # 500 topics
    with pytest.raises(WireError, match="tagged"):
        request_codec(3, 9).decode(start + topic * 500 + end)


def test_the_tagged_fields_of_a_header_are_limited() -> None:
    fields = b"".join(bytes([tag & 0x7F | 0x80, tag >> 7, 0]) for tag in range(1001))
    with pytest.raises(WireError, match="tagged"):
        skip_tagged(memoryview(bytes([0xE9, 0x07]) + fields), 0)


def test_strings_that_not_every_version_could_carry() -> None:
    """Kafka rejects them in flexible versions too, where their length would fit."""
    longest = HeartbeatRequest("g" * 32_767)
    ours = request_codec(12, 4)
    assert ours.decode(ours.encode(longest)) == longest
    size = bytes([0x81, 0x80, 0x02])  # 32,769, which stands for 32,768 bytes
    with pytest.raises(WireError, match="longer than 32767"):
        ours.decode(size + b"g" * 32_768 + bytes([0, 0, 0, 0, 1, 0, 0]))
    with pytest.raises(EncodingError):
        ours.encode(HeartbeatRequest("g" * 32_768))


FETCH_12 = "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01"
"""A fetch of nothing, up to its tagged fields."""


@pytest.mark.parametrize(
    ("key", "version", "written"),
    [
        pytest.param(0, 0, "0001 00000000 ffffffff", id="null where an array must be"),
        pytest.param(0, 0, "0001 00000000 fffffffe", id="a count below -1"),
        pytest.param(3, 1, "fffffffe", id="a count below -1 where null may be"),
        pytest.param(0, 0, "0001 00000000 00000001 ffff 00000000", id="null where a string must be"),
        pytest.param(0, 3, "fffe 0001 00000000 00000000", id="a length below -1"),
        pytest.param(0, 9, "00 0001 00000000 00 00", id="compact null where an array must be"),
        pytest.param(0, 9, "00 0001 00000000 02 00 01 00 00", id="compact null where a string must be"),
        pytest.param(0, 0, "0001 00000000 00000001 0002 c328 00000000", id="not UTF-8"),
        pytest.param(0, 9, "808080808000 0001 00000000 01 00", id="a varint of six bytes"),
        pytest.param(0, 9, "ffffffff1f 0001 00000000 01 00", id="a varint of 33 bits"),
        pytest.param(18, 3, "01 01 02 05 00 05 00", id="a tagged field twice"),
        pytest.param(1, 12, FETCH_12, id="no tagged fields, not even their count"),
        pytest.param(1, 12, FETCH_12 + "01 00 03 02 63 00", id="a tagged field shorter than it claims"),
        pytest.param(1, 12, FETCH_12 + "01 00 01 02 63", id="a tagged field longer than it claims"),
    ],
)
def test_impossible_values(key: int, version: int, written: str) -> None:
    with pytest.raises(WireError):
        request_codec(key, version).decode(bytes.fromhex(written))


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "00"))
    tagged = request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "03 00 02 02 63 07 00 8001 03 010203"))
    assert tagged.cluster_id == "c"
    tagged.cluster_id = None
    assert tagged == plain


def test_many_tagged_fields() -> None:
    count = 300
    fields = b"".join(bytes([tag & 0x7F | 0x80, tag >> 7, 1, 0]) for tag in range(128, 128 + count))
    encoded = bytes.fromhex(FETCH_12) + bytes([count & 0x7F | 0x80, count >> 7]) + fields
    assert request_codec(1, 12).decode(encoded) == request_codec(1, 12).decode(bytes.fromhex(FETCH_12 + "00"))
