"""Prepared fetches of a follower: requests are encoded, and answers decoded, as by the codecs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.broker.replication.prepared_fetch import FIRST_PREPARED, PreparedFetch
from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.wire import WireError, request_codec, response_codec
from pylogbroker.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(FIRST_PREPARED, offered_versions(FetchRequest.api_key).last + 1)
_FIRST_WITH_ENDPOINTS = 16
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TOPIC_ID, SESSION, INDEX = UUID(int=0x7000_0001), 17, 3


def request(epoch: int, partition: FetchPartition) -> FetchRequest:
    topics = [FetchTopic("", TOPIC_ID, [partition])]
    return FetchRequest(None, -1, ReplicaState(2, 9), 500, 1, 10 << 20, 0, SESSION, epoch, topics)


def prepared(version: int) -> PreparedFetch:
    return PreparedFetch.learn(request(1, FetchPartition(INDEX, 4, 5, 6, 7, 8)), version)


PARTITIONS = st.builds(FetchPartition, st.just(INDEX), INT, LONG, INT, LONG, INT)


@given(st.sampled_from(VERSIONS), INT, PARTITIONS, st.integers(0, 2**31 - 1))
def test_requests_are_encoded_as_usual(version: int, learned: int, partition: FetchPartition, epoch: int) -> None:
    form = PreparedFetch.learn(request(learned, FetchPartition(INDEX)), version)
    sent = form.request(epoch, partition)
    assert (sent.kind, sent.version) == (FetchRequest, version)
    assert sent.body == request_codec(FetchRequest.api_key, version).encode(request(epoch, partition))


USUAL = st.builds(
    PartitionData, st.just(INDEX), st.just(0), LONG, LONG, LONG, aborted_transactions=st.none(), records=st.binary()
)
UNUSUAL = st.builds(
    PartitionData,
    st.sampled_from((INDEX, INDEX + 1)),
    st.sampled_from((0, 6)),
    LONG,
    LONG,
    LONG,
    st.sampled_from((EpochEndOffset(), EpochEndOffset(1, 2))),
    st.sampled_from((LeaderIdAndEpoch(), LeaderIdAndEpoch(1, 2))),
    aborted_transactions=st.sampled_from((None, [], [AbortedTransaction(1, 2)])),
    preferred_read_replica=st.sampled_from((-1, 5)),
    records=st.none() | st.binary(),
)
TOPICS = st.builds(
    FetchableTopicResponse, st.just(""), st.sampled_from((TOPIC_ID, UUID(int=5))), st.lists(USUAL | UNUSUAL, max_size=2)
)
RESPONSES = st.builds(
    FetchResponse,
    st.sampled_from((0, 0, 3)),
    st.sampled_from((0, 0, 70)),
    st.sampled_from((SESSION, SESSION, 18)),
    st.lists(TOPICS, max_size=2),
    st.sampled_from(([], [NodeEndpoint(1, "h", 2)])),
) | st.builds(FetchResponse, session_id=st.just(SESSION), responses=st.builds(lambda answer: [topic(answer)], USUAL))


def topic(answer: PartitionData) -> FetchableTopicResponse:
    return FetchableTopicResponse("", TOPIC_ID, [answer])


def body(response: FetchResponse, version: int) -> bytes:
    chunks: list[Any] = response_codec(FetchRequest.api_key, version).chunks(response)
    return b"".join(chunks)


@given(st.sampled_from(VERSIONS), RESPONSES, st.binary(max_size=3))
def test_responses_are_decoded_as_usual(version: int, response: FetchResponse, begin: bytes) -> None:
    if version < _FIRST_WITH_ENDPOINTS:
        response.node_endpoints = []
    data = memoryview(begin + body(response, version))
    decode = prepared(version).request(2, FetchPartition(INDEX)).decode
    assert decode(data, len(begin)) == response_codec(FetchRequest.api_key, version).decode_first(data, len(begin))


@pytest.mark.parametrize("version", VERSIONS)
def test_usual_responses_need_no_decoder(version: int) -> None:
    answer = PartitionData(INDEX, 0, 1, 2, 3, aborted_transactions=None, records=b"records")
    data = memoryview(body(FetchResponse(session_id=SESSION, responses=[topic(answer)]), version))
    assert prepared(version)._usual_response(data, 0) is not None


@given(st.sampled_from(VERSIONS), st.data())
def test_damaged_responses_are_decoded_as_usual(version: int, data: st.DataObject) -> None:
    answer = PartitionData(INDEX, 0, 1, 2, 3, aborted_transactions=None, records=b"records")
    damaged = bytearray(body(FetchResponse(session_id=SESSION, responses=[topic(answer)]), version))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(0, 255))
    decode = prepared(version).request(2, FetchPartition(INDEX)).decode
    results = []
    for attempt in (decode, response_codec(FetchRequest.api_key, version).decode_first):
        try:
            results.append(attempt(memoryview(bytes(damaged)), 0))
        except WireError:
            results.append(None)
    assert results[0] == results[1]
