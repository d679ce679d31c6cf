"""AddPartitionsToTxn (key 24): add partitions to a transaction.

Versions::

    0  one transaction
    1  KIP-219 throttling
    2  PRODUCER_FENCED replaces INVALID_PRODUCER_EPOCH
    3  flexible
    4  several transactions, sent by brokers; `verify_only`
    5  TRANSACTION_ABORTABLE replaces INVALID_TXN_STATE
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Until,
    fresh,
    struct,
)


@struct
class AddPartitionsToTxnTopic:
    name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class AddPartitionsToTxnTransaction:
    """Partitions of one transaction, only looked up with `verify_only`."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Boolean = False
    topics: list[AddPartitionsToTxnTopic] = fresh(list)


@struct
class AddPartitionsToTxnRequest(Request):
    """Request with `transactions` from version 4 on; before that, with the fields of one transaction."""

    api_key, versions = APIS["add_partitions_to_txn"]

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = fresh(list)
    v3_and_below_transactional_id: Annotated[String, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = fresh(list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = fresh(list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = fresh(list)


@struct
class AddPartitionsToTxnResponse(Response):
    """Response with `results_by_transaction` from version 4 on; before that, with the results of one transaction."""

    api_key, versions = APIS["add_partitions_to_txn"]

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = fresh(list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = fresh(list)
