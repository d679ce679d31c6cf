"""ListTransactions (key 66): the transactional ids that a broker coordinates.

Versions::

    0  flexible
    1  filter by duration
    2  filter by a regular expression (RE2) of transactional ids
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Int32, Int64, Request, Response, Since, String, fresh, struct


@struct
class ListTransactionsRequest(Request):
    """An empty filter, or a negative duration, matches all."""

    api_key, versions = APIS["list_transactions"]

    state_filters: list[String] = fresh(list)
    producer_id_filters: list[Int64] = fresh(list)
    duration_filter: Annotated[Int64, Since(1)] = -1
    transactional_id_pattern: Annotated[String | None, Since(2)] = None


@struct
class TransactionState:
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@struct
class ListTransactionsResponse(Response):
    """`unknown_state_filters` are states that do not exist."""

    api_key, versions = APIS["list_transactions"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = fresh(list)
    transaction_states: list[TransactionState] = fresh(list)
