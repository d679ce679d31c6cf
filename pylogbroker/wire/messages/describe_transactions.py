"""DescribeTransactions (key 65): states of transactions."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Int32, Int64, Request, Response, String, fresh, struct


@struct
class DescribeTransactionsRequest(Request):
    api_key, versions = APIS["describe_transactions"]

    transactional_ids: list[String] = fresh(list)


@struct
class TopicData:
    """Partitions of one topic without a marker yet."""

    topic: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = fresh(list)


@struct
class DescribeTransactionsResponse(Response):
    api_key, versions = APIS["describe_transactions"]

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = fresh(list)
