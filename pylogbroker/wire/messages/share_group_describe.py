"""ShareGroupDescribe (key 77): describe share groups and their members."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    NO_ID,
    NOT_ASKED,
    Boolean,
    ErrorText,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class ShareGroupDescribeRequest(Request):
    api_key, versions = APIS["share_group_describe"]

    group_ids: list[String] = fresh(list)
    include_authorized_operations: Boolean = False


@struct
class ShareMemberTopicPartitions:
    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class ShareMemberAssignment:
    topic_partitions: list[ShareMemberTopicPartitions] = fresh(list)


@struct
class ShareGroupMember:
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = fresh(list)
    assignment: ShareMemberAssignment = fresh(ShareMemberAssignment)


@struct
class DescribedShareGroup:
    error_code: Int16 = 0
    error_message: ErrorText | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[ShareGroupMember] = fresh(list)
    authorized_operations: Int32 = NOT_ASKED


@struct
class ShareGroupDescribeResponse(Response):
    api_key, versions = APIS["share_group_describe"]

    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup] = fresh(list)
