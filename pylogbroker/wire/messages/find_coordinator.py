"""FindCoordinator (key 10): coordinators of groups (key type 0) and transactional ids (1).

Versions::

    0  groups only
    1  transactional ids; the response has an error message and a throttle time
    2  KIP-219 throttling
    3  flexible
    4  several keys at once
    5  error TRANSACTION_ABORTABLE
    6  key type 2, share groups
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    Until,
    fresh,
    struct,
)


@struct
class FindCoordinatorRequest(Request):
    """`key` below version 4, then `coordinator_keys`."""

    api_key, versions = APIS["find_coordinator"]

    key: Annotated[String, Until(3)] = ""
    key_type: Annotated[Int8, Since(1)] = 0
    coordinator_keys: Annotated[list[String], Since(4)] = fresh(list)


@struct
class Coordinator:
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = ""


@struct
class FindCoordinatorResponse(Response):
    """Response with `coordinators` from version 4 on; before that, with one coordinator."""

    api_key, versions = APIS["find_coordinator"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, Until(3)] = 0
    error_message: Annotated[ErrorText | None, Since(1), Until(3), IGNORABLE] = ""
    node_id: Annotated[Int32, Until(3)] = 0
    host: Annotated[String, Until(3)] = ""
    port: Annotated[Int32, Until(3)] = 0
    coordinators: Annotated[list[Coordinator], Since(4)] = fresh(list)
