"""Figures of a mirror in the headers of its heartbeats."""

from __future__ import annotations

import json

import pytest

from pylogbroker.mirror_records.formats import MirrorHeartbeat
from pylogbroker.mirror_records.status import (
    HEADER,
    TOPICS_MAX,
    MirroredTopicReport,
    StatusReport,
    report_of,
    signs_of,
    topics_of,
)

REPORT = StatusReport(
    12, 345, 6789, 1.5, 2.5, (MirroredTopicReport("orders", "east.orders", 3, 12),), {"bills": "no right"}, "error"
)


def row(source: str, timestamp: int, *headers: tuple[str, bytes | None]):
    heartbeat = MirrorHeartbeat(source, "B", timestamp)
    return heartbeat.key(), heartbeat.value(), headers


def test_report_survives_its_header():
    name, text = REPORT.header()
    assert name == HEADER
    assert report_of(text) == REPORT


def test_last_heartbeat_of_each_mirror_counts():
    signs = signs_of([row("A", 1, REPORT.header()), row("C", 2), row("A", 3, StatusReport(5).header())])
    assert [(sign.source, sign.timestamp, sign.report and sign.report.lag) for sign in signs] == [
        ("A", 3, 5),
        ("C", 2, None),
    ]


def test_silent_mirror_does_not_run():
    [sign] = signs_of([row("A", 100_000)])
    assert sign.is_running(114.9)
    assert not sign.is_running(115.0)


def test_only_topics_with_the_greatest_lag_are_reported():
    topics = tuple(MirroredTopicReport(f"t{number}", f"t{number}", 1, number) for number in range(200))
    report = report_of(StatusReport(topics=topics).header()[1])
    assert [topic.lag for topic in report.topics] == list(range(199, 199 - TOPICS_MAX, -1))


def test_topics_have_their_names_in_the_target_and_come_by_their_lags():
    lags = {"bills": (1, 2), "orders": (2, 5)}
    assert topics_of(lags, {"orders": "A.orders"}) == (
        MirroredTopicReport("orders", "A.orders", 2, 5),
        MirroredTopicReport("bills", "bills", 1, 2),
    )


@pytest.mark.parametrize("text", [None, b"", b"[]", b"\xff", b"[" * 50_000, b" " * 200_000 + b"{}"])
def test_header_without_an_object_is_no_report(text):
    assert report_of(text) is None


@pytest.mark.parametrize("value", [None, "1", -1, 1.5, True, [], {}, 1 << 63, float("nan")])
def test_fields_of_other_types_have_their_defaults(value):
    names = ("lag", "records", "bytes", "topics", "stopped", "trouble")
    fields = dict.fromkeys(names, value)
    report = report_of(json.dumps(fields).encode())
    expected = StatusReport(trouble="1") if value == "1" else StatusReport()
    assert report == expected


@pytest.mark.parametrize("value", [None, "1", -1, True, float("inf"), float("nan"), 10**400])
def test_rates_that_are_none_are_zero(value):
    report = report_of(json.dumps({"records_per_second": value, "topics": {"t": value}}).encode())
    assert (report.records_per_second, report.topics) == (0.0, ())


def test_texts_of_a_report_can_be_written_as_utf_8():
    text = rb'{"trouble": "a\ud800", "stopped": {"b\udfff": "\ud800"}, "topics": {"c\ud800": {"target": "\udfffd"}}}'
    report = report_of(text)
    assert (report.trouble, report.stopped) == ("a?", {"b?": "?"})
    assert report.topics == (MirroredTopicReport("c?", "?d", 0, 0),)


def test_records_that_are_no_heartbeats_are_ignored():
    assert signs_of([(b"\0", b"", ()), (None, None, ())]) == []
