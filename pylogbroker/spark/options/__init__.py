"""Options of source and sink, named as in Spark's own Kafka source.

Rejected is whatever Spark's source rejects, and a misspelt option (`raw`), `endingTimestamp` for a stream, or `assign`
without a partition. `groupIdPrefix` and `kafka.group.id` are ignored: there is no consumer group.
"""

from pylogbroker.spark.options.sink import WriteOptions
from pylogbroker.spark.options.source import ReadOptions, Retries, TopicSelection, TriggerLimits

__all__ = ["ReadOptions", "Retries", "TopicSelection", "TriggerLimits", "WriteOptions"]
