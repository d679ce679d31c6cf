"""AddPartitionsToTxn (key 24): partitions that a transaction is going to write to.

== =====================================================================
 0 one transaction, as clients send it
 1 a throttled response is sent before the pause, not after it
 2 PRODUCER_FENCED may be answered
 3 flexible
 4 several transactions, as brokers send them; to check alone, not to add
 5 TRANSACTION_ABORTABLE may be answered
== =====================================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class AddPartitionsToTxnTransaction:
    """The partitions of one transaction; with `verify_only` it is asked whether they are in it."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Boolean = False
    topics: list[AddPartitionsToTxnTopic] = fresh(list)


@struct
class AddPartitionsToTxnRequest(Request):
    """The `transactions` from version 4 on, the one transaction below."""

    api_key = 24
    versions = Versions(0, 5, flexible=3)

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = fresh(list)
    v3_and_below_transactional_id: Annotated[String, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = fresh(list)


@struct
class AddPartitionsToTxnPartitionResult:
    """Whether one partition was added, or is in the transaction."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """The results of one topic's partitions."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = fresh(list)


@struct
class AddPartitionsToTxnResult:
    """The results of one transaction."""

    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = fresh(list)


@struct
class AddPartitionsToTxnResponse(Response):
    """The results: by transaction from version 4 on, of the one transaction below."""

    api_key = 24
    versions = Versions(0, 5, flexible=3)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = fresh(list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = fresh(list)
