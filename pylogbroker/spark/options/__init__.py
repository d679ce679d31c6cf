"""Options of the source and the sink, parsed and validated. Names are those of Spark's own Kafka source.

    options = ReadOptions.parse({"kafka.bootstrap.servers": "one:9092", "subscribe": "events"}, streaming=False)

Everything that Spark's source rejects is rejected here. So are three mistakes that Spark's source ignores: a misspelt
option (`raw`), `endingTimestamp` for a stream, and `assign` without a partition. `groupIdPrefix` and `kafka.group.id`
are accepted and ignored, since no consumer group is used.
"""

from pylogbroker.spark.options.sink import WriteOptions
from pylogbroker.spark.options.source import ReadOptions, Retries, TopicSelection, TriggerLimits

__all__ = ["ReadOptions", "Retries", "TopicSelection", "TriggerLimits", "WriteOptions"]
