"""Errors of transactional requests; a partition without a result did not succeed."""

from __future__ import annotations

import pytest

from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.client.transaction_requests import add_partitions_request, offset_codes, partition_codes
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.answer_rows import WrongRows
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

REQUEST = add_partitions_request("p", ProducerIdentity(1, 0), [("t", 0), ("t", 1)])


def added(*codes: int) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(codes)]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("t", rows)])


def test_partitions_that_were_not_attempted_have_no_error_of_their_own() -> None:
    failed, left_out = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert partition_codes(REQUEST, added(failed, left_out)) == [failed]
    assert partition_codes(REQUEST, added(left_out, left_out)) == [left_out, left_out]
    assert partition_codes(REQUEST, added(0, 0)) == [0, 0]


def test_a_partition_without_a_result_is_not_in_the_transaction() -> None:
    with pytest.raises(WrongRows, match="the coordinator answered AddPartitionsToTxn with no result for t-1"):
        partition_codes(REQUEST, added(0))


def test_an_offset_without_a_result_is_not_in_the_transaction() -> None:
    partitions = [TxnOffsetCommitRequestPartition(index, 5) for index in (0, 1)]
    request = TxnOffsetCommitRequest(topics=[TxnOffsetCommitRequestTopic("t", partitions)])
    rows = [TxnOffsetCommitResponsePartition(0, ErrorCode.NONE), TxnOffsetCommitResponsePartition(1, ErrorCode.NONE)]
    answer = TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("t", rows)])
    assert offset_codes(request, answer) == [0, 0]
    del rows[0]
    with pytest.raises(WrongRows, match="TxnOffsetCommit with no result for t-0"):
        offset_codes(request, answer)
