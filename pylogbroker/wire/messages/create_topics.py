"""CreateTopics (key 19): create topics.

Versions::

    0  partitions and replicas, or an assignment; settings
    1  validation alone; the response has error messages
    2  `throttle_time_ms`
    3  KIP-219 throttling
    4  -1 partitions or replicas: the broker's default
    5  flexible; the topic's settings in the response
    6  error THROTTLING_QUOTA_EXCEEDED
    7  the response has topic ids
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Boolean,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    Tag,
    Uuid,
    fresh,
    struct,
)


@struct
class CreatableReplicaAssignment:
    """Brokers of one partition, the preferred leader first."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = fresh(list)


@struct
class CreatableTopicConfig:
    name: String = ""
    value: String | None = ""


@struct
class CreatableTopic:
    """Counts are -1 if `assignments` is given."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = fresh(list)
    configs: list[CreatableTopicConfig] = fresh(list)


@struct
class CreateTopicsRequest(Request):
    api_key, versions = APIS["create_topics"]

    topics: list[CreatableTopic] = fresh(list)
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Boolean, Since(1)] = False


@struct
class CreatableTopicConfigs:
    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False


@struct
class CreatableTopicResult:
    """`topic_config_error_code` is the reason for missing `configs`."""

    name: String = ""
    topic_id: Annotated[Uuid, Since(7), IGNORABLE] = NO_ID
    error_code: Int16 = 0
    error_message: Annotated[ErrorText | None, Since(1), IGNORABLE] = ""
    topic_config_error_code: Annotated[Int16, Since(5), Tag(0), IGNORABLE] = 0
    num_partitions: Annotated[Int32, Since(5), IGNORABLE] = -1
    replication_factor: Annotated[Int16, Since(5), IGNORABLE] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Since(5), IGNORABLE] = fresh(list)


@struct
class CreateTopicsResponse(Response):
    api_key, versions = APIS["create_topics"]

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[CreatableTopicResult] = fresh(list)
