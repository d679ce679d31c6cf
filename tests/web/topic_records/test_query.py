"""Parameters of an address: start points, times, partitions, and addresses with other parameters."""

from __future__ import annotations

import pytest

from pylogbroker.web.record_search.search import StartPoint
from pylogbroker.web.topic_records.query import BadField, RecordQuery, parsed_place, positions_text

NOW = 1_700_000_000_000  # 2023-11-14T22:13:20Z
MIDNIGHT = 1_699_920_000_000


@pytest.mark.parametrize(
    ("text", "partitions", "point"),
    [
        ("", [], StartPoint()),
        ("390865", [], StartPoint(offset=390865)),
        ("4:390865", [4], StartPoint(offset=390865)),
        ("09:30", [], StartPoint(time_ms=MIDNIGHT + 34_200_000)),
        ("9:30:05", [], StartPoint(time_ms=MIDNIGHT + 34_205_000)),
        ("25:30", [25], StartPoint(offset=30)),
        ("-2h", [], StartPoint(time_ms=NOW - 7_200_000)),
        ("-15 m", [], StartPoint(time_ms=NOW - 900_000)),
        ("2023-11-14T22:00", [], StartPoint(time_ms=NOW - 800_000)),
        ("2023-11-14T23:00+01:00", [], StartPoint(time_ms=NOW - 800_000)),
    ],
)
def test_start_points(text: str, partitions: list[int], point: StartPoint) -> None:
    request = RecordQuery("orders", start=text).search_request(NOW, 10)
    assert (request.partitions, request.start) == (partitions, point)


@pytest.mark.parametrize("text", ["noon", "-2", "9:3:2", "25:30:10", "٣", "-2y"])
def test_start_points_that_are_none(text: str) -> None:
    with pytest.raises(BadField) as raised:
        RecordQuery("orders", start=text).search_request(NOW, 10)
    assert raised.value.field == "start"


def test_partitions_are_numbers_and_ranges() -> None:
    assert RecordQuery("orders", partition="3, 0-2,2").partitions() == [0, 1, 2, 3]
    for text in ("a", "1-", "0-64", "9" * 10):
        with pytest.raises(BadField):
            RecordQuery("orders", partition=text).partitions()


def test_addresses_keep_what_was_typed() -> None:
    query = RecordQuery("a/b", where='value.a == "x&y"', columns="time,value.a", after="0:1")
    link = "/topics/a%2Fb/records?where=value.a%20%3D%3D%20%22x%26y%22&columns=time,value.a"
    assert query.link(after="") == link
    assert query.link("/opened", after="", where="", columns="", at="0:1") == "/topics/a%2Fb/records/opened?at=0:1"
    assert RecordQuery("orders").link() == "/topics/orders/records"


def test_positions() -> None:
    request = RecordQuery("orders", after="0:17,12:4").search_request(NOW, 10)
    assert request.positions == {0: 17, 12: 4}
    assert positions_text(request.positions) == "0:17,12:4"
    assert parsed_place("4:402338") == (4, 402338)
    for text in ("4", "4:", "x:1", "4:402,338"):
        with pytest.raises(BadField):
            parsed_place(text)
