"""ConsumerGroupDescribe (key 69): groups of KIP-848, whose assignments the coordinator computes.

Versions::

    0  groups by name
    1  `member_type`: -1 unknown, 0 classic, 1 consumer
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    NOT_ASKED,
    Boolean,
    ErrorText,
    Int8,
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
class ConsumerGroupDescribeRequest(Request):
    api_key, versions = APIS["consumer_group_describe"]

    group_ids: list[String] = fresh(list)
    include_authorized_operations: Boolean = False


@struct
class AssignedTopicPartitions:
    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class Assignment:
    topic_partitions: list[AssignedTopicPartitions] = fresh(list)


@struct
class ConsumerGroupMember:
    """`assignment` is what the member has, `target_assignment` what it shall have."""

    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = fresh(list)
    subscribed_topic_regex: String | None = None
    assignment: Assignment = fresh(Assignment)
    target_assignment: Assignment = fresh(Assignment)
    member_type: Annotated[Int8, Since(1), IGNORABLE] = -1


@struct
class DescribedConsumerGroup:
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[ConsumerGroupMember] = fresh(list)
    authorized_operations: Int32 = NOT_ASKED


@struct
class ConsumerGroupDescribeResponse(Response):
    api_key, versions = APIS["consumer_group_describe"]

    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup] = fresh(list)
