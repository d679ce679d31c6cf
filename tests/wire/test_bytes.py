"""Messages beside their bytes, written out by hand from the protocol guide."""

from __future__ import annotations

from uuid import UUID

import pytest

from pylogbroker.wire import WireError, WireMessage, codec, request_codec, response_codec
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pylogbroker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pylogbroker.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ID = UUID("01234567-89ab-cdef-0123-456789abcdef")


def request(acks: int, records: bytes | None) -> ProduceRequest:
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", [PartitionProduceData(7, records)])])


EXAMPLES: list[tuple[WireMessage, int, str]] = [
    (
        request(1, b"abc"),
        0,
        "0001 000003e8"  # acks, timeout
        "00000001 0001 74"  # one topic, 't'
        "00000001 00000007 00000003 616263",  # one partition, 7, the records
    ),
    (request(-1, None), 3, "ffff ffff 000003e8 00000001 0001 74 00000001 00000007 ffffffff"),
    (
        request(-1, b"abc"),
        9,
        "00 ffff 000003e8"  # no transactional id
        "02 02 74"  # one topic and one more, a name of one byte and one more
        "02 00000007 04 616263 00"  # the partition and its tagged fields
        "00 00",  # those of the topic, and of the request
    ),
    (
        ProduceResponse([TopicProduceResponse("t", [PartitionProduceResponse(7, 3, 5)])]),
        0,
        "00000001 0001 74 00000001 00000007 0003 0000000000000005",
    ),
    (
        ProduceResponse([TopicProduceResponse("t", [PartitionProduceResponse(7, 0, 5, -1, 2)])], 9),
        8,
        "00000001 0001 74 00000001 00000007 0000 0000000000000005 ffffffffffffffff 0000000000000002"
        "00000000 ffff"  # no record errors, no message
        "00000009",
    ),
    (
        FetchRequest(max_wait_ms=5, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(0, -1, 9)])]),
        0,
        "ffffffff 00000005 00000001 00000001 0001 74 00000001 00000000 0000000000000009 00000000",
    ),
    (
        FetchRequest(
            cluster_id="c",
            replica_state=ReplicaState(2, 3),
            topics=[FetchTopic(topic_id=ID, partitions=[FetchPartition(1, 4, 9, 5, 6, 7)])],
            rack_id="r",
        ),
        15,
        "00000000 00000000 7fffffff 00 00000000 ffffffff"
        "02 0123456789abcdef0123456789abcdef"
        "02 00000001 00000004 0000000000000009 00000005 0000000000000006 00000007 00 00"
        "01 02 72"  # nothing forgotten, the rack
        "02"  # two tagged fields
        "00 02 02 63"  # the first, of two bytes: the cluster's id
        "01 0d 00000002 0000000000000003 00",  # the second, of thirteen: the follower
    ),
    (
        FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(1, 0, 8, records=b"xy")])]),
        1,
        "00000000 00000001 0001 74 00000001 00000001 0000 0000000000000008 00000002 7879",
    ),
    (
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    "t",
                    partitions=[
                        PartitionData(
                            1,
                            0,
                            8,
                            diverging_epoch=EpochEndOffset(2, 3),
                            aborted_transactions=None,
                        )
                    ],
                )
            ]
        ),
        12,
        "00000000 0000 00000000 02 02 74"
        "02 00000001 0000 0000000000000008 ffffffffffffffff ffffffffffffffff"
        "00 ffffffff 00"  # null aborted transactions, no preferred replica, null records
        "01 00 0d 00000002 0000000000000003 00"  # one tagged field: where the logs diverge
        "00 00",
    ),
    (
        ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-2)])]),
        0,
        "ffffffff 00000001 0001 74 00000001 00000000 fffffffffffffffe 00000001",
    ),
    (
        ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, 0, [8, 4])])]),
        0,
        "00000001 0001 74 00000001 00000000 0000 00000002 0000000000000008 0000000000000004",
    ),
    (MetadataRequest([]), 0, "00000000"),
    (MetadataRequest(None, False), 4, "ffffffff 00"),
    (
        OffsetCommitRequest(
            "g",
            2,
            "m",
            topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 9, commit_timestamp=3)])],
        ),
        1,
        "0001 67 00000002 0001 6d 00000001 0001 7400000001 00000000 0000000000000009 0000000000000003 0000",
    ),
    (
        DescribeLogDirsRequest([DescribableLogDirTopic("t", [1, 2])]),
        0,
        "00000001 0001 74 00000002 00000001 00000002",
    ),
    (ApiVersionsRequest(), 0, ""),
    (ApiVersionsRequest("kcat", "1"), 3, "05 6b636174 02 31 00"),
    (ApiVersionsResponse(35, [ApiVersion(18, 0, 4)]), 0, "0023 00000001 0012 0000 0004"),
    (ApiVersionsResponse(0, [ApiVersion(18, 0, 4)]), 3, "0000 02 0012 0000 0004 00 00000000 00"),
    (DescribeTopicPartitionsRequest([TopicRequest("t")]), 0, "02 02 74 00 000007d0 ff 00"),
    (DescribeTopicPartitionsRequest([], 1, Cursor("t", 2)), 0, "01 00000001 01 02 74 00000002 00 00"),
]


@pytest.mark.parametrize(("message", "version", "written"), EXAMPLES)
def test_bytes_and_message_are_one(message: WireMessage, version: int, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert codec(type(message), version).encode(message) == encoded
    assert codec(type(message), version).decode(encoded) == message


def test_fields_absent_in_a_version_have_their_defaults() -> None:
    encoded = request_codec(1, 0).encode(FetchRequest(max_bytes=5, session_id=6, rack_id="r"))
    assert request_codec(1, 0).decode(encoded) == FetchRequest()


def test_lists_are_not_shared() -> None:
    encoded = response_codec(0, 0).encode(ProduceResponse())
    first, second = response_codec(0, 0).decode(encoded), response_codec(0, 0).decode(encoded)
    first.node_endpoints.append(None)
    assert second.node_endpoints == []
    assert ProduceResponse().node_endpoints == []


def test_trailing_bytes_are_accepted_on_request() -> None:
    frame = bytes.fromhex("00 00 00 00 01 00 00")  # how librdkafka 2.16 asks for the metadata of all topics
    codec = request_codec(3, 12)
    assert codec.decode_first(frame).topics is None
    with pytest.raises(WireError, match="ends at 4"):
        codec.decode(frame)
    with pytest.raises(WireError, match="cut off"):
        codec.decode_first(frame[:3])
