"""Topology of a Kafka Streams application (KIP-1071), as members send it and as it is stored.

A subtopology reads from source topics and from repartition topics, writes to repartition topics, and keeps its states
in changelog topics. Values are shared, and never changed.
"""

from pylogbroker.wire.schema import Int16, Int32, Int64, String, UInt16, fresh, struct


@struct
class StreamsKeyValue:
    key: String = ""
    value: String = ""


@struct
class StreamsTopicInfo:
    """An internal topic. 0 partitions follow from the sources; a replication factor of 0 is the broker's default."""

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[StreamsKeyValue] = fresh(list)


@struct
class StreamsCopartitionGroup:
    """Sources with equal numbers of partitions, as places in the lists of the subtopology."""

    source_topics: list[Int16] = fresh(list)
    source_topic_regex: list[Int16] = fresh(list)
    repartition_source_topics: list[Int16] = fresh(list)


@struct
class StreamsSubtopology:
    subtopology_id: String = ""
    source_topics: list[String] = fresh(list)
    source_topic_regex: list[String] = fresh(list)
    state_changelog_topics: list[StreamsTopicInfo] = fresh(list)
    repartition_sink_topics: list[String] = fresh(list)
    repartition_source_topics: list[StreamsTopicInfo] = fresh(list)
    copartition_groups: list[StreamsCopartitionGroup] = fresh(list)


@struct
class StreamsEndpoint:
    """Address of an instance for interactive queries."""

    host: String = ""
    port: UInt16 = 0


@struct
class StreamsTaskIds:
    subtopology_id: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class StreamsTaskOffset:
    """Sum of the offsets of a task's changelog partitions."""

    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0
