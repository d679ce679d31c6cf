"""Options of source and sink, named as in Spark's own Kafka source.

Everything that Spark's source rejects is rejected here. So are a misspelt option (`raw`), `endingTimestamp` for a
stream, and `assign` without a partition. `groupIdPrefix` and `kafka.group.id` are ignored: there is no consumer group.
"""

from pylogbroker.spark.options.sink import WriteOptions
from pylogbroker.spark.options.source import ReadOptions, Retries, TopicSelection, TriggerLimits

__all__ = ["ReadOptions", "Retries", "TopicSelection", "TriggerLimits", "WriteOptions"]
