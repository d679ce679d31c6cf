"""Two structured streams over the log's topic, which write what they count into topics of their own.

    views      {"page": "/about.html", "minute": "2015-05-17T10:05:00.000Z", "views": 3}              by page
    visits     {"client": "83.149.9.216", "start": ..., "end": ..., "requests": 23, "views": 2}       by client

A view is a GET of a page that was answered with it, or with "not modified"; pictures, styles and the like are no pages.
A visit ends when its client sends nothing for more than 30 minutes; `end` is the time of its last request.

Both go by the times in the log (event time), which are years ago, and not by the clock.  A count is written once, when
the watermark, the latest time that has come less `lateness`, has passed the minute's end or the visit's.  A line that
comes behind the watermark may be too late, so then `run` raises TooLate.  The mark at the log's end is late enough for
the last minute and the last visit to be written, too.
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
    """Lines came later than was allowed for: what has been counted may be wrong."""


@attrs.frozen
class Streams:
    """Where lines come from, where counts go, and how they get there."""

    spark: SparkSession
    bootstrap: str
    lines: str
    views: str
    visits: str
    checkpoints: Path
    lateness: timedelta

    def run(self) -> None:
        """Count what there is that was not counted before, in one micro-batch; first one stream, then the other."""
        requests = self._requests()
        for counts, topic in ((views_of(requests), self.views), (visits_of(requests), self.visits)):
            query = self._start(counts, topic)
            query.awaitTermination()
            _check_late(query, self.lateness)

    def _requests(self) -> DataFrame:
        """A row for each line that can be read, and one for the mark, which has a time alone."""
        source = self.spark.readStream.format("pylogbroker").option("kafka.bootstrap.servers", self.bootstrap)
        records = source.option("subscribe", self.lines).option("startingOffsets", "earliest").load()
        taken_apart = arrow_udf(fields_of, _FIELDS)  # type: ignore[call-overload]  # the kind of function may be left out
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
    """The fields of lines, by the same function by which the loader has them."""
    return FIELDS(pa.record_batch({"value": lines})).to_struct_array()


def views_of(requests: DataFrame) -> DataFrame:
    """Views by page and minute. Requests that are none have no page, and so count nothing; the mark, too."""
    counted = requests.groupBy(fn.window("time", "1 minute"), "page").agg(fn.count("page").alias("views"))
    minute = fn.col("window.start").alias("minute")
    return counted.filter("views > 0").select(fn.col("page").alias("key"), _json("page", minute, "views"))


def visits_of(requests: DataFrame) -> DataFrame:
    """Visits by client."""
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
    """Spark itself tells of lines that it has dropped, but not of those that came too late for their visit."""
    times = [step["eventTime"] for step in query.recentProgress]
    late = [each for each in times if "min" in each and each["min"] < each["watermark"]]
    if late:
        raise TooLate(
            f"a line of {late[0]['min']} came when {late[0]['watermark']} had passed: allow for more than {lateness}"
        )
