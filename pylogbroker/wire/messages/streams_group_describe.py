"""StreamsGroupDescribe (key 89): describe groups of Kafka Streams, their topologies and their members.

0   KIP-1071
1   topology descriptions by a plugin (KIP-1331), and the name of the assignor (KIP-1357)
"""

from collections.abc import Iterator
from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
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
    fresh,
    struct,
)
from pylogbroker.wire.streams_topology import (
    StreamsEndpoint,
    StreamsKeyValue,
    StreamsTaskIds,
    StreamsTaskOffset,
    StreamsTopicInfo,
)


@struct
class StreamsGroupDescribeRequest(Request):
    api_key, versions = APIS["streams_group_describe"]

    group_ids: list[String] = fresh(list)
    include_authorized_operations: Boolean = False
    include_topology_description: Annotated[Boolean, Since(1)] = False


@struct
class DescribedSubtopology:
    subtopology_id: String = ""
    source_topics: list[String] = fresh(list)
    repartition_sink_topics: list[String] = fresh(list)
    state_changelog_topics: list[StreamsTopicInfo] = fresh(list)
    repartition_source_topics: list[StreamsTopicInfo] = fresh(list)


@struct
class DescribedTopology:
    epoch: Int32 = 0
    subtopologies: list[DescribedSubtopology] | None = None


def partitions_of(topology: DescribedTopology | None, tasks: list[StreamsTaskIds]) -> Iterator[tuple[str, int]]:
    """Yield the partitions that tasks read. Of sources with different numbers of partitions, some do not exist."""
    subtopologies = {} if topology is None else {row.subtopology_id: row for row in topology.subtopologies or ()}
    for task in tasks:
        subtopology = subtopologies.get(task.subtopology_id)
        if subtopology is not None:
            for topic in subtopology.source_topics:
                yield from ((topic, number) for number in task.partitions)
            for info in subtopology.repartition_source_topics:
                yield from ((info.name, number) for number in task.partitions if number < info.partitions)


@struct
class StreamsAssignment:
    active_tasks: list[StreamsTaskIds] = fresh(list)
    standby_tasks: list[StreamsTaskIds] = fresh(list)
    warmup_tasks: list[StreamsTaskIds] = fresh(list)


@struct
class DescribedStreamsMember:
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[StreamsKeyValue] = fresh(list)
    task_offsets: list[StreamsTaskOffset] = fresh(list)
    task_end_offsets: list[StreamsTaskOffset] = fresh(list)
    assignment: StreamsAssignment = fresh(StreamsAssignment)
    target_assignment: StreamsAssignment = fresh(StreamsAssignment)
    is_classic: Boolean = False


@struct
class TopologyDescriptionNode:
    name: String = ""
    node_type: Int8 = 0
    source_topics: list[String] = fresh(list)
    sink_topic: String | None = None
    stores: list[String] = fresh(list)
    successors: list[String] = fresh(list)


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: String = ""
    nodes: list[TopologyDescriptionNode] = fresh(list)


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = fresh(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = fresh(TopologyDescriptionNode)


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology] = fresh(list)
    global_stores: list[TopologyDescriptionGlobalStore] = fresh(list)


@struct
class DescribedStreamsGroup:
    """`topology_description_status` is 0 if none was requested, 1 if none is stored."""

    error_code: Int16 = 0
    error_message: ErrorText | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: DescribedTopology | None = None
    members: list[DescribedStreamsMember] = fresh(list)
    authorized_operations: Int32 = NOT_ASKED
    topology_description: Annotated[TopologyDescription | None, Since(1)] = None
    topology_description_status: Annotated[Int8, Since(1)] = 0
    assignor_name: Annotated[String | None, Since(1), IGNORABLE] = None


@struct
class StreamsGroupDescribeResponse(Response):
    api_key, versions = APIS["streams_group_describe"]

    throttle_time_ms: Int32 = 0
    groups: list[DescribedStreamsGroup] = fresh(list)
