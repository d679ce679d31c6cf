"""DeleteTopics (key 20): remove topics.

== ===========================================================
 0 topics by name
 1 the response has a throttle time
 2 a throttled response is sent before the pause, not after it
 3 as version 2; TOPIC_DELETION_DISABLED may be answered
 4 flexible
 5 the response has error messages
 6 topics by name or by id
== ===========================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class DeleteTopicState:
    """A topic to delete: its name, or null and its id."""

    name: String | None = None
    topic_id: Uuid = NO_ID


@struct
class DeleteTopicsRequest(Request):
    """The topics to delete: `topic_names` below version 6, `topics` from then on."""

    api_key = 20
    versions = Versions(0, 6, flexible=4)

    topics: Annotated[list[DeleteTopicState], Since(6)] = fresh(list)
    topic_names: Annotated[list[String], Until(5), IGNORABLE] = fresh(list)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    """What became of one topic."""

    name: Annotated[String | None, NullableSince(6)] = ""
    topic_id: Annotated[Uuid, Since(6), IGNORABLE] = NO_ID
    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(5), IGNORABLE] = None


@struct
class DeleteTopicsResponse(Response):
    """What became of the topics."""

    api_key = 20
    versions = Versions(0, 6, flexible=4)

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    responses: list[DeletableTopicResult] = fresh(list)
