"""Encoding and decoding in steps: the same as at once, with pauses."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from pylogbroker.wire import SUPPORTED, Chunk, request_codec, response_codec
from pylogbroker.wire.encoder_compiler import OWN_CHUNK_BYTES_MIN
from pylogbroker.wire.errors import EncodingError, WireError
from pylogbroker.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pylogbroker.wire.source import STEP
from tests.support.budget import Budget
from tests.support.examples import examples
from tests.wire.random_messages import messages

T = TypeVar("T")
VERSIONS = {key: range(request.versions.first, request.versions.last + 1) for key, (request, _) in SUPPORTED.items()}


def finish(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """The result, and how often the coroutine gave way."""
    pauses = 0
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def join(chunks: list[Chunk]) -> bytes:
    return b"".join(map(bytes, chunks))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", VERSIONS)
def test_steps_give_the_result_of_one_step(key: int, budget: Budget) -> None:
    for version in VERSIONS[key]:
        check_steps(key, version, budget.chance(f"{key} {version}"))


def check_steps(key: int, version: int, chance: Random) -> None:
    requests, responses = request_codec(key, version), response_codec(key, version)
    pairs = zip(
        messages(requests.message, version, examples(20, quick=4), chance),
        messages(responses.message, version, examples(20, quick=4), chance),
        strict=True,
    )
    for request, response in pairs:
        framed = join(responses.frame(7, response))
        assert join(finish(responses.frame_in_steps(7, response))[0]) == framed
        assert join(responses.frame_if_short(7, response, 1 << 30) or []) == framed
        encoded = memoryview(requests.encode(request))
        assert finish(requests.decode_at_in_steps(encoded, 0))[0][0] == requests.decode_first(encoded)


def metadata(topics: int, partitions: int) -> MetadataResponse:
    found = [MetadataResponsePartition(partition_index=index) for index in range(partitions)]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "here", 9092)],
        topics=[MetadataResponseTopic(name=f"t{number}", partitions=found) for number in range(topics)],
    )


@pytest.mark.parametrize(("topics", "partitions"), [(10, 1000), (5000, 1), (9000, 0)])
def test_long_messages_pause(topics: int, partitions: int) -> None:
    answer = metadata(topics, partitions)
    chunks, pauses = finish(response_codec(3, 9).frame_in_steps(1, answer))
    assert pauses >= topics * max(partitions, 1) // STEP
    assert join(chunks) == join(response_codec(3, 9).frame(1, answer))


def test_long_requests_pause() -> None:
    codec = request_codec(3, 9)
    request = MetadataRequest([MetadataRequestTopic(name=str(number)) for number in range(10 * STEP)])
    (decoded, _), pauses = finish(codec.decode_at_in_steps(memoryview(codec.encode(request)), 0))
    assert (decoded, pauses) == (request, 10)


def test_errors_match_those_of_one_step() -> None:
    codec = request_codec(3, 9)
    encoded = codec.encode(MetadataRequest([MetadataRequestTopic(name="t")] * 1000))
    with pytest.raises(WireError, match="cut off"):
        finish(codec.decode_at_in_steps(memoryview(encoded)[:-5], 0))
    wrong: Any = MetadataResponse(cluster_id=5)  # type: ignore[arg-type]
    with pytest.raises(EncodingError, match="cannot be encoded"):
        finish(response_codec(3, 9).frame_in_steps(1, wrong))


def test_limits_match_those_of_one_step() -> None:
    codec, excess = request_codec(3, 9), MetadataRequest.elements_max + 1
    encoded = codec.encode(MetadataRequest([MetadataRequestTopic(name="t")] * excess))
    with pytest.raises(WireError, match="send several requests"):
        finish(codec.decode_at_in_steps(memoryview(encoded), 0))
    rejected = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message="x" * 5000)] * 2000)
    chunks = join(finish(response_codec(19, 7).frame_in_steps(1, rejected))[0])
    assert chunks == join(response_codec(19, 7).frame(1, rejected))
    assert len(chunks) < 2_000_000


@pytest.mark.parametrize(("topics", "partitions", "structs"), [(0, 0, 1), (3, 20, 64), (64, 0, 65)])
def test_a_bound_counts_the_structs_in_arrays(topics: int, partitions: int, structs: int) -> None:
    codec, answer = response_codec(3, 9), metadata(topics, partitions)
    chunks = codec.frame_if_short(7, answer, structs)
    assert chunks is not None
    assert join(chunks) == join(codec.frame(7, answer))
    assert codec.frame_if_short(7, answer, structs - 1) is None


@pytest.mark.parametrize("ending", [[], [PartitionData(1, aborted_transactions=None)]])
def test_large_records_are_not_copied_into_a_short_frame(ending: list[PartitionData]) -> None:
    codec, records = response_codec(1, 4), bytes(OWN_CHUNK_BYTES_MIN)
    partitions = [PartitionData(0, aborted_transactions=None, records=records), *ending]
    answer = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    chunks = codec.frame_if_short(7, answer, 3)
    assert chunks is not None
    assert [each.obj for each in chunks if isinstance(each, memoryview)] == [records]
    assert join(chunks) == join(codec.frame(7, answer))


@pytest.mark.parametrize("key", VERSIONS)
def test_short_messages_are_encoded_at_once(key: int) -> None:
    for version in VERSIONS[key]:
        codec = response_codec(key, version)
        chunks = codec.frame_if_short(7, codec.message(), 0)
        assert chunks is not None
        assert join(chunks) == join(codec.frame(7, codec.message()))
