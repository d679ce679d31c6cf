"""Paces of groups: records a second, and the age of the oldest record that a group has not read."""

from __future__ import annotations

from unittest.mock import patch

from pylogbroker.web.group_lags import INTERVAL_SECONDS, SAMPLES_MAX, GroupPace
from pylogbroker.web.log_ends import Age, LogEnds
from tests.web.test_group_lags import HistoryTests
from tests.web.test_views import NOW

KEY = ("clicks", 0)
OTHER = ("clicks", 1)


def test_the_age_of_a_record_lies_between_two_samples() -> None:
    ends = LogEnds()
    assert ends.age(KEY, 0, 10, 5_000) is None
    for time_ms, end in ((10_000, 100), (40_000, 100), (70_000, 400)):
        ends.note(time_ms, {KEY}, {KEY: end})
    assert ends.age(KEY, 99, 400, 100_000) == Age(90_000, True)  # it was there before the first sample
    assert ends.age(KEY, 100, 400, 100_000) == Age(60_000)  # the first one after the second sample
    assert ends.age(KEY, 250, 400, 100_000) == Age(45_000)
    assert ends.age(KEY, 400, 500, 100_000) == Age(30_000)  # after the last sample
    assert ends.age(KEY, 450, 500, 100_000) == Age(15_000)


def test_an_unknown_end_repeats_the_last_one() -> None:
    ends = LogEnds()
    ends.note(0, {KEY}, {})
    assert ends.written(KEY) is None
    for time_ms, end in ((10_000, 5), (20_000, None), (30_000, 8)):
        ends.note(time_ms, {KEY}, {} if end is None else {KEY: end})
    assert (ends.written(KEY), ends.interval_ms) == (3, 10_000)
    assert ends.age(KEY, 5, 8, 30_000) == Age(10_000)
    ends.note(40_000, set(), {})
    assert ends.age(KEY, 5, 8, 40_000) is None


def test_rings_are_bounded() -> None:
    ends = LogEnds()
    for number in range(SAMPLES_MAX + 10):
        ends.note(number * 1000, {KEY}, {KEY: number})
    last = (SAMPLES_MAX + 9) * 1000
    assert ends.age(KEY, 0, 1000, last) == Age((SAMPLES_MAX - 1) * 1000, True)
    with patch("pylogbroker.web.log_ends.PARTITIONS_MAX", 1):
        ends.note(last + 1000, [KEY, OTHER], {KEY: 1000, OTHER: 1000})
    assert ends.age(OTHER, 0, 1000, last) is None


class TestPaces(HistoryTests):
    def pace(self) -> GroupPace:
        return self.source.samples.group_lags.paces["readers"]

    def test_rates_and_the_oldest_unread_record(self) -> None:
        self.start()
        self.assertEqual(self.pace(), GroupPace(("clicks",), None, None, 0, True))
        self.node.produce("clicks", 0, *[NOW] * 60)
        self.commit("readers", "clicks", 10)
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.pace(), GroupPace(("clicks",), 6 / INTERVAL_SECONDS, 2.0, 30_000))
        self.commit("readers", "clicks", 70)
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.pace(), GroupPace(("clicks",), 2.0, 0.0, 0))
        self.commit("readers", "clicks", 40)  # a reset is no reading
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.pace(), GroupPace(("clicks",), 0.0, 0.0, 75_000))

    def test_a_pace_without_known_ends_is_not_known(self) -> None:
        async def unknown(*_: object) -> dict[tuple[str, int], int]:
            return {}

        with patch("pylogbroker.web.sampler.ends_of", side_effect=unknown):
            self.start()
        self.assertEqual(self.pace(), GroupPace(("clicks",), None, None, None))
