"""The example `examples/activity_stream`, whole: its counts and figures beside those of plain Python.

The log is the example's own sample, which has a bit of everything that logs can have, then what no server should write,
and some weeks of little traffic with a busy half-hour in the middle. With `--thorough` a real one follows, where it is
at hand.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from examples.activity_stream import __main__ as activity_stream
from examples.activity_stream import broker, report
from examples.activity_stream.__main__ import main
from examples.activity_stream.counting import Streams, TooLate
from examples.activity_stream.files import Files
from examples.activity_stream.lines import read
from examples.activity_stream.producing import produce
from pylogbroker.client.sync import Producer
from tests.support.budget import Budget

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "activity_stream" / "sample.log"
ODD = [
    b'192.0.2.206 - - [20/May/2015:23:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "' + b"\\x22" * 10_000 + b'"',
    b'192.0.2.206 - - [20/May/2015:23:00:01 +0000] "GET / HTTP/1.1" 200 2 "-" "Odd \\" agent" "192.0.2.1" 0.002',
    b'192.0.2.206 - - [20/May/2015:23:00:02 +0000] "GET / HTTP/1.1" 200 3 "-" "cut off',
    b'192.0.2.206 - - [20/May/2015:23:00:03 +0000] "GET / HTTP/1.1" 200 99999999999999999999 "-" "-"',
    b'192.0.2.206 - - [20/May/9999:23:00:04 +0000] "GET / HTTP/1.1" 200 4 "-" "-"',
    b'192.0.2.206 - - [20/May/2015:23:00:05 +0000] "-" 408 0 "-" "-"',
    bytes(3_000_000),
    b"\xff\xfe \x00",
]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@attrs.frozen
class Request:
    client: str
    time: datetime
    status: int
    size: int | None
    page: str | None


def weeks() -> Iterator[bytes]:
    """Lines of 40 days: 25 clients on each of them, and once 1,500 lines of one client."""
    for day in range(40):
        start = datetime(2015, 6, 1, tzinfo=UTC) + timedelta(days=day)
        seconds = [(f"198.51.100.{number}", 3000 * number) for number in range(25)]
        if day == 20:
            seconds += [("203.0.113.1", 80_000 + second) for second in range(1500)]
        for client, second in seconds:
            time = start + timedelta(seconds=second)
            stamp = f"{time.day:02}/{MONTHS[time.month - 1]}/{time:%Y:%H:%M:%S} +0000"
            yield f'{client} - - [{stamp}] "GET /busy/{second % 7} HTTP/1.1" 200 1'.encode()


def read_line(line: bytes) -> Request | None:
    """A line, taken apart from left to right; None if it is not of the format."""
    try:
        who, rest = line.decode(errors="replace").split(" [", 1)
        client, _, _ = who.split(" ")
        stamp, rest = rest.split('] "', 1)
        request, rest = rest.split('" ', 1)
        method, target, _ = request.split(" ")
        status, size, *tail = rest.split(" ", 2)
        if tail and behind_text(behind_text(tail[0])[1:])[:1] not in ("", " "):
            return None
        if len(size) > 18 or stamp[7:9] != "20":
            return None
        page = page_of(target) if method == "GET" and status in ("200", "304") else None
        return Request(client, time_of(stamp), int(status), None if size == "-" else int(size), page)
    except (ValueError, IndexError):
        return None


def behind_text(text: str) -> str:
    """Return the rest after a quoted text, in which a backslash escapes the next character."""
    if text[0] != '"':
        raise ValueError(text)
    place = 1
    while text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return text[place + 1 :]


def time_of(stamp: str) -> datetime:
    """17/May/2015:10:05:03 +0000."""
    moment, zone = stamp.split(" ")
    date, hour, minute, second = moment.split(":")
    day, month, year = date.split("/")
    offset = timezone((1 if zone[0] == "+" else -1) * timedelta(hours=int(zone[1:3]), minutes=int(zone[3:])))
    number = MONTHS.index(month) + 1
    return datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=offset).astimezone(UTC)


def page_of(target: str) -> str | None:
    path = target.partition("?")[0].partition("#")[0]
    last = path.split("/")[-1]
    return path if "." not in last or last.split(".")[-1] in ("html", "htm", "xhtml", "xhtm", "php") else None


def visits_of(requests: Iterable[Request]) -> Iterator[tuple[str, datetime, datetime, int, int]]:
    by_client = defaultdict(list)
    for request in requests:
        by_client[request.client].append(request)
    for client, theirs in by_client.items():
        visit: list[Request] = []
        for request in sorted(theirs, key=lambda each: each.time):
            if visit and request.time - visit[-1].time > timedelta(minutes=30):
                yield summary(client, visit)
                visit = []
            visit.append(request)
        yield summary(client, visit)


def summary(client: str, visit: list[Request]) -> tuple[str, datetime, datetime, int, int]:
    return client, visit[0].time, visit[-1].time, len(visit), sum(each.page is not None for each in visit)


def in_files(directory: Path, *columns: str) -> list[tuple[Any, ...]]:
    """All rows of all Parquet files there."""
    rows: list[tuple[Any, ...]] = []
    for file in directory.rglob("*.parquet"):
        rows += [tuple(row[name] for name in columns) for row in parquet.read_table(file).to_pylist()]
    return rows


def test_counts_match_the_log(
    spark: SparkSession, tmp_path: Path, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run in the tests' session; with `--thorough` in a process and a session of its own, as a reader does."""
    log, output = tmp_path / "access.log.gz", tmp_path / "output"
    lines = [*SAMPLE.read_bytes().splitlines(), *ODD, *weeks()]
    log.write_bytes(gzip.compress(b"\n".join(lines), compresslevel=1))
    requests = [request for request in map(read_line, lines) if request is not None]
    assert len(lines) > len(requests) > 2000

    at_once = str(len(lines) * 2 // 3)  # the streams run twice; each run takes seconds
    arguments = [str(log), "--output", str(output), "--lines-at-once", at_once]
    if budget.thorough:
        command = [sys.executable, "-m", "examples.activity_stream", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    else:
        monkeypatch.setattr(activity_stream, "started", lambda output: nullcontext(spark))
        printed = CliRunner().invoke(main, arguments, catch_exceptions=False).output
    assert printed.endswith(f"the report is {output / 'report.html'}\n")

    read_lines = Counter(row for row in in_files(output / "files/lines", "client", "time", "status", "bytes") if row[1])
    assert read_lines == Counter((each.client, each.time, each.status, each.size) for each in requests)

    views = Counter((each.page, each.time.replace(second=0)) for each in requests if each.page is not None)
    assert sorted(in_files(output / "files/views", "page", "minute", "views")) == sorted(
        (page, minute, count) for (page, minute), count in views.items()
    )

    visits = sorted(visits_of(requests))
    assert sorted(in_files(output / "files/visits", "client", "start", "end", "requests", "views")) == visits

    figures = json.loads((output / "figures.json").read_text())
    assert figures == {
        "lines": len(lines),
        "unreadable": len(lines) - len(requests),
        "clients": len({each.client for each in requests}),
        "bytes": sum(each.size or 0 for each in requests),
        "first": f"{min(each.time for each in requests):%Y-%m-%d %H:%M:%S}",
        "last": f"{max(each.time for each in requests):%Y-%m-%d %H:%M:%S}",
        "errors": sum(each.status >= 400 for each in requests),
        "page_views": views.total(),
        "pages": len({page for page, _ in views}),
        "visits": len(visits),
        "visitors": len({visit[0] for visit in visits}),
        "longest_visit_seconds": max((end - start).seconds for _, start, end, _, _ in visits),
        "requests_per_visit": round(len(requests) / len(visits), 2),
    }
    page = (output / "report.html").read_text()
    assert "From the log file <code>access.log.gz</code>. All times are in UTC." in page
    assert f"<td>first<td>{figures['first']} UTC\n" in page
    assert re.search(rf"<td>bytes<td>[\d.]+ [kMGT]?B \({figures['bytes']:,}\)\n", page)
    assert printed.startswith(f"reading {log}: ")
    assert f"<td>page views<td>{views.total():,}\n" in page
    for number in range(1, 5):
        assert f'src="plot-{number}.svg"' in page
        assert ElementTree.parse(output / f"plot-{number}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_lines_that_are_too_late_are_not_passed_over_in_silence(spark: SparkSession, tmp_path: Path) -> None:
    with broker.running(tmp_path / "broker") as bootstrap, Producer(bootstrap) as producer:
        place = {"lines": "lines", "views": "views", "visits": "visits", "checkpoints": tmp_path / "checkpoints"}
        streams = Streams(spark, bootstrap, **place, lateness=timedelta(0))  # type: ignore[arg-type]
        morning, afternoon = read(SAMPLE, 100)
        produce(producer, "lines", afternoon)
        streams.run()
        produce(producer, "lines", morning)
        with pytest.raises(TooLate, match="had passed: allow more than 0:00:00"):
            streams.run()


def test_a_log_without_pages(spark: SparkSession) -> None:
    time = "timestamp '2015-05-16 06:11:06'"
    lines = spark.sql(f"SELECT 'anna' key, 'anna' client, {time} time, 404 status, cast(NULL AS int) bytes")
    views = spark.createDataFrame([], "page string, minute timestamp, views long")
    visits = spark.sql(f"SELECT 'anna' client, {time} start, {time} end, 1 requests, 0 views")
    found = report.find(Files(lines, views, visits))
    assert (found.figures["page_views"], found.figures["bytes"], found.figures["visits"]) == (0, 0, 1)


@pytest.mark.parametrize("contents", [b"", b"#Fields: date time\n2015-05-16 06:11:06 GET /\n"], ids=["none", "other"])
def test_a_log_of_another_format_is_rejected_before_anything_is_done(tmp_path: Path, contents: bytes) -> None:
    log, output = tmp_path / "access.log", tmp_path / "output"
    log.write_bytes(contents)
    done = CliRunner().invoke(main, [str(log), "--output", str(output)])
    assert (done.exit_code, output.exists()) == (1, False)
    assert done.output.splitlines()[-1] == f"Error: {log} has no line in the common or the combined format"


def test_an_output_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "figures.json").write_text("mine")
    done = CliRunner().invoke(main, [str(SAMPLE), "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty" in done.output
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
