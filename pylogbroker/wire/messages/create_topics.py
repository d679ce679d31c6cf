"""CreateTopics (key 19): new topics.

== ==================================================================
 0 partitions and replicas, or an assignment; settings
 1 validation alone; the response has error messages
 2 the response has a throttle time
 3 a throttled response is sent before the pause, not after it
 4 -1 as number of partitions or replicas: the broker's default
 5 flexible; the response tells what was made of the topic's settings
 6 as version 5; THROTTLING_QUOTA_EXCEEDED may be answered
 7 the response has topic ids
== ==================================================================
"""

from typing import Annotated

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
    Versions,
    fresh,
    struct,
)


@struct
class CreatableReplicaAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = fresh(list)


@struct
class CreatableTopicConfig:
    """A setting of the new topic."""

    name: String = ""
    value: String | None = ""


@struct
class CreatableTopic:
    """A topic to create.  Counts are -1 where `assignments` say it."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = fresh(list)
    configs: list[CreatableTopicConfig] = fresh(list)


@struct
class CreateTopicsRequest(Request):
    """The topics to create."""

    api_key = 19
    versions = Versions(0, 7, flexible=5)

    topics: list[CreatableTopic] = fresh(list)
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Boolean, Since(1)] = False


@struct
class CreatableTopicConfigs:
    """A setting as the created topic has it."""

    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False


@struct
class CreatableTopicResult:
    """What became of one topic.  `topic_config_error_code` says why there are no `configs`."""

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
    """What became of the topics."""

    api_key = 19
    versions = Versions(0, 7, flexible=5)

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[CreatableTopicResult] = fresh(list)
