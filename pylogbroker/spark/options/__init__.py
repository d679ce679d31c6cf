"""The options of the source and the sink: those of Spark's own Kafka source, by their names, as values.

    options = ReadOptions.parse({"kafka.bootstrap.servers": "one:9092", "subscribe": "events"}, streaming=False)

What Spark's source refuses is refused here, and a little more, where it would go on with something else than what was
meant: a misspelt option (`given`), `endingTimestamp` for a stream, `assign` without any partition.  `groupIdPrefix` and
`kafka.group.id` are accepted and do nothing, since there is no group: offsets are asked of the leaders.
"""

from pylogbroker.spark.options.reading import Limits, ReadOptions, Retries, Topics
from pylogbroker.spark.options.writing import WriteOptions

__all__ = ["Limits", "ReadOptions", "Retries", "Topics", "WriteOptions"]
