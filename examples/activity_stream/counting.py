"""Two structured streams that count the lines' topic and write the counts to topics of their own.

    views      {"page": "/about.html", "minute": "2015-05-17T10:05:00.000Z", "views": 3}              by page
    visits     {"client": "83.149.9.216", "start": ..., "end": ..., "requests": 23, "views": 2}       by client

A view is a GET of a page with status 200 or 304 (not modified); images, styles and the like are no pages. A visit ends
when its client sends nothing for more than 30 minutes; `end` is the time of its last request.

Both use the times in the log (event time), which may be years ago, not the clock. A count is written once, when the
watermark (the latest time so far minus `lateness`) has passed the end of the minute or visit. A line behind the
watermark may be too late, so `run` then raises TooLate. The mark at the log's end is late enough to complete the last
minute and the last visit.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.streaming.query import StreamingQuery

from examples.activity_stream.lines import FIELDS

VISIT_GAP: Final = timedelta(minutes=30)
MINUTE: Final = timedelta(minutes=1)
_PAGE: Final = r"(^|/)[^/.]*$|\.(x?html?|php)$"
_FIELDS: Final = (
    "client string, time timestamp, method string, target string, status smallint, bytes bigint, referrer string,"
    " agent string"
)


class TooLate(Exception):
    """Lines came later than `lateness` allows: counts may be wrong."""


@attrs.frozen
class Streams:
    """Topics and settings of the two streams."""

    spark: SparkSession
    bootstrap: str
    lines: str
    views: str
    visits: str
    checkpoints: Path
    lateness: timedelta

    def run(self) -> None:
        """Count all new lines in one micro-batch, first with one stream, then with the other."""
        requests = self._requests()
        for counts, topic in ((views_of(requests), self.views), (visits_of(requests), self.visits)):
            query = self._start(counts, topic)
            query.awaitTermination()
            _check_late(query, self.lateness)

    def _requests(self) -> DataFrame:
        """Return a row for each parsed line, and one for the mark, which has only a time."""
        source = self.spark.readStream.format("pylogbroker").option("kafka.bootstrap.servers", self.bootstrap)
        records = source.option("subscribe", self.lines).option("startingOffsets", "earliest").load()
        taken_apart = arrow_udf(fields_of, _FIELDS)  # type: ignore[call-overload]  # the function type is optional
        fields = taken_apart("value").alias("fields")
        lines = records.select("key", "value", fields).select("key", "value", "fields.*")
        mark = fn.when(fn.col("key").isNull(), fn.col("value").cast("string").try_cast("timestamp"))
        path = fn.regexp_extract("target", "^[^?#]*", 0)
        is_view = (fn.col("method") == "GET") & fn.col("status").isin(200, 304) & path.rlike(_PAGE)
        time, page = fn.coalesce("time", mark).alias("time"), fn.when(is_view, path).alias("page")
        requests = lines.select(time, "client", page).filter("time IS NOT NULL")
        return requests.withWatermark("time", f"{self.lateness.total_seconds():.0f} seconds")

    def _start(self, counts: DataFrame, topic: str) -> StreamingQuery:
        sink = counts.writeStream.format("pylogbroker").option("kafka.bootstrap.servers", self.bootstrap)
        sink = sink.option("topic", topic).option("checkpointLocation", str(self.checkpoints / topic))
        return sink.outputMode("append").trigger(availableNow=True).start()


def fields_of(lines: pa.Array) -> pa.Array:
    """Return the fields of lines, by the function that the loader uses, too."""
    return FIELDS(pa.record_batch({"value": lines})).to_struct_array()


def views_of(requests: DataFrame) -> DataFrame:
    """Count views by page and minute. Requests that are no views have no page and count nothing, like the mark."""
    counted = requests.groupBy(fn.window("time", "1 minute"), "page").agg(fn.count("page").alias("views"))
    minute = fn.col("window.start").alias("minute")
    return counted.filter("views > 0").select(fn.col("page").alias("key"), _json("page", minute, "views"))


def visits_of(requests: DataFrame) -> DataFrame:
    """Count visits by client."""
    gap = fn.session_window("time", f"{VISIT_GAP.total_seconds():.0f} seconds")
    counted = requests.groupBy(gap.alias("visit"), "client").agg(
        fn.count("client").alias("requests"), fn.count("page").alias("views")
    )
    start = fn.col("visit.start").alias("start")
    end = (fn.col("visit.end") - fn.expr(f"INTERVAL '{VISIT_GAP.total_seconds():.0f}' SECOND")).alias("end")
    value = _json("client", start, end, "requests", "views")
    return counted.filter("requests > 0").select(fn.col("client").alias("key"), value)


def _json(*columns: str | Column) -> Column:
    return fn.to_json(fn.struct(*columns)).alias("value")


def _check_late(query: StreamingQuery, lateness: timedelta) -> None:
    """Raise TooLate for late lines. Spark reports lines that it dropped, but not those too late for their visit."""
    times = [step["eventTime"] for step in query.recentProgress]
    late = [each for each in times if "min" in each and each["min"] < each["watermark"]]
    if late:
        raise TooLate(
            f"a line of {late[0]['min']} came after {late[0]['watermark']} had passed: allow more than {lateness}"
        )
