"""ShareAcknowledge (key 79): acknowledge records of a share group.

Versions::

    1  KIP-932
    2  acknowledgements that renew (KIP-1222)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Boolean,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class AcknowledgePartition:
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = fresh(list)


@struct
class AcknowledgeTopic:
    topic_id: Uuid = NO_ID
    partitions: list[AcknowledgePartition] = fresh(list)


@struct
class ShareAcknowledgeRequest(Request):
    """A batch has one type for all of its records, or one for each.

    The types are 0 for a gap, 1 to accept, 2 to release, 3 to reject, and 4 to renew.
    """

    api_key, versions = APIS["share_acknowledge"]

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Boolean, Since(2)] = False
    topics: list[AcknowledgeTopic] = fresh(list)


@struct
class ShareAcknowledgePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    current_leader: LeaderIdAndEpoch = fresh(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = NO_ID
    partitions: list[ShareAcknowledgePartitionData] = fresh(list)


@struct
class ShareAcknowledgeResponse(Response):
    api_key, versions = APIS["share_acknowledge"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    responses: list[ShareAcknowledgeTopicResponse] = fresh(list)
    node_endpoints: list[NodeEndpoint] = fresh(list)
