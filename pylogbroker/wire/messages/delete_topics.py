"""DeleteTopics (key 20): delete topics.

Versions::

    0  topics by name
    1  `throttle_time_ms`
    2  KIP-219 throttling
    3  TOPIC_DELETION_DISABLED replaces INVALID_REQUEST
    4  flexible
    5  the response has error messages
    6  topics by name or by id
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    ErrorText,
    Int16,
    Int32,
    NullableSince,
    Request,
    Response,
    Since,
    String,
    Until,
    Uuid,
    fresh,
    struct,
)


@struct
class DeleteTopicState:
    """Topic by name, or by id if the name is null."""

    name: String | None = None
    topic_id: Uuid = NO_ID


@struct
class DeleteTopicsRequest(Request):
    """`topic_names` below version 6, then `topics`."""

    api_key, versions = APIS["delete_topics"]

    topics: Annotated[list[DeleteTopicState], Since(6)] = fresh(list)
    topic_names: Annotated[list[String], Until(5), IGNORABLE] = fresh(list)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    name: Annotated[String | None, NullableSince(6)] = ""
    topic_id: Annotated[Uuid, Since(6), IGNORABLE] = NO_ID
    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(5), IGNORABLE] = None


@struct
class DeleteTopicsResponse(Response):
    api_key, versions = APIS["delete_topics"]

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    responses: list[DeletableTopicResult] = fresh(list)
