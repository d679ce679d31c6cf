"""Records pass through: read as views of the frame, written as chunks of their own."""

from __future__ import annotations

import pytest

from pylogbroker.wire import Chunk, request_codec, response_codec
from pylogbroker.wire.encoder_compiler import OWN_CHUNK_BYTES_MIN
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Region:
    """So many bytes of a file."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


def fetched(*records: Chunk | None) -> FetchResponse:
    partitions = [PartitionData(index, records=chunk) for index, chunk in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])


def produced(records: Chunk | None, version: int) -> bytearray:
    request = ProduceRequest(topic_data=[TopicProduceData("t", [PartitionProduceData(0, records)])])
    return bytearray(request_codec(0, version).encode(request))


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_of_the_frame(version: int) -> None:
    frame = produced(b"abc", version)
    records = request_codec(0, version).decode(memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"abc")] = ord("z")
    assert records == b"zbc"


@pytest.mark.parametrize("version", [3, 9])
def test_no_records_and_empty_ones_differ(version: int) -> None:
    for records in (None, b""):
        decoded = request_codec(0, version).decode(produced(records, version))
        assert decoded.topic_data[0].partition_data[0].records == records


def test_any_buffer_is_taken_and_given() -> None:
    plain = request_codec(0, 3).decode(bytes(produced(b"abc", 3)))
    for buffer in (bytearray, memoryview):
        assert request_codec(0, 3).decode(buffer(produced(b"abc", 3))) == plain
        assert produced(buffer(b"abc"), 3) == produced(b"abc", 3)


@pytest.mark.parametrize("version", [4, 12])
def test_regions_are_chunks_of_their_own(version: int) -> None:
    codec = response_codec(1, version)
    first, second = Region(300), Region(5)
    chunks = codec.chunks(fetched(first, b"small", second))
    assert chunks[1] is first
    assert chunks[3] is second
    whole = b"".join(chunk if isinstance(chunk, bytes) else bytes(len(chunk)) for chunk in chunks)
    assert whole == codec.encode(fetched(bytes(300), b"small", bytes(5)))


def test_only_large_records_are_chunks_of_their_own() -> None:
    large, small = bytearray(OWN_CHUNK_BYTES_MIN), bytearray(OWN_CHUNK_BYTES_MIN - 1)
    chunks = response_codec(1, 4).chunks(fetched(small, large))
    assert [type(chunk) for chunk in chunks] == [bytes, memoryview]
    assert chunks[1].obj is large


@pytest.mark.parametrize("version", [4, 12])
def test_a_frame_begins_with_the_size_of_all_its_chunks(version: int) -> None:
    codec = response_codec(1, version)
    chunks = codec.frame(9, fetched(Region(70_000), Region(1)))
    assert int.from_bytes(chunks[0][:4]) == sum(map(len, chunks)) - 4
    assert int.from_bytes(chunks[0][4:8]) == 9
