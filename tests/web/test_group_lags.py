"""History of the lag of groups: the ring, its samples by the clock, and the chart."""

from __future__ import annotations

from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.charts import count_chart
from pylogbroker.web.group_lags import GROUPS_MAX, INTERVAL_SECONDS, SAMPLES_MAX, GroupLags, LagSample
from tests.web.test_views import NOW, ViewTests
from tests.web.test_visitors import AnonymousTests


def test_a_ring_has_the_last_samples() -> None:
    lags = GroupLags()
    for number in range(SAMPLES_MAX + 5):
        lags.note(number, {"readers": number * 10})
    found = lags.of("readers")
    assert found == [LagSample(number, number * 10) for number in range(5, SAMPLES_MAX + 5)]


def test_a_later_group_has_the_times_of_its_samples() -> None:
    lags = GroupLags()
    lags.note(1, {"first": 1})
    lags.note(2, {"first": 2, "second": None})
    lags.note(3, {"first": 3, "second": 9})
    assert lags.of("second") == [LagSample(2, None), LagSample(3, 9)]
    lags.note(4, {"second": 10})
    lags.note(5, {"first": 5, "second": 11})
    assert lags.of("first") == [LagSample(5, 5)]
    assert lags.of("nobody") == []


def test_groups_are_bounded_and_groups_with_history_stay() -> None:
    lags = GroupLags()
    names = [f"group-{number}" for number in range(GROUPS_MAX + 10)]
    chosen = lags.choose(reversed(names))
    assert chosen == set(names[10:])
    lags.note(1, dict.fromkeys(chosen, 0))
    assert lags.choose(names) == chosen
    assert lags.choose(names[:20]) == set(names[:20])


def test_sparse_lags_end_with_the_last_one() -> None:
    lags = GroupLags()
    for lag in range(12):
        lags.note(lag * 1000, {"readers": lag})
    assert lags.sparse("readers") == [1, 6, 11]
    assert lags.sparse("others") == []


def test_lines_of_a_chart() -> None:
    assert count_chart([], [])["first"] == []
    assert count_chart([0, 30], [0, None])["first"] == ["0,120 0,120"]
    lag = count_chart([0, 30, 60, 90], [1, 2, None, 1500])
    assert (lag["most"], lag["first"]) == (2000, ["0,120 200,120", "600,30.8 600,30.8"])


class HistoryTests(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("readers", "clicks", 4)

    def start(self) -> None:
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)

    def history(self) -> list[tuple[int, int | None]] | None:
        found = self.ask("group?id=readers")["history"]
        return None if found is None else [(each["time"], each["lag"]) for each in found]


class TestHistory(HistoryTests):
    def test_samples_come_by_the_clock(self) -> None:
        self.assertEqual(self.history(), [])
        self.start()
        self.assertEqual(self.history(), [(NOW, 6)])
        self.node.produce("clicks", 0, NOW)
        self.node.clock.advance(INTERVAL_SECONDS - 1)
        self.assertEqual(self.history(), [(NOW, 6)])
        self.node.clock.advance(1)
        self.commit("readers", "clicks", 11)
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.history(), [(NOW, 6), (NOW + 30_000, 7), (NOW + 60_000, 0)])

    def test_a_failed_sample_is_logged_and_the_next_one_taken(self) -> None:
        with patch("pylogbroker.web.sampler.ends_of", side_effect=[RuntimeError("planted")]):
            self.start()
        [failure] = self.flushLoggedErrors(RuntimeError)
        self.assertIn("planted", str(failure.value))
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.history(), [(NOW + 30_000, 6)])

    def test_a_late_sample_delays_the_next_one(self) -> None:
        late = Deferred[dict[tuple[str, int], int]]()

        async def wait(*_: object) -> dict[tuple[str, int], int]:
            return await late

        with patch("pylogbroker.web.sampler.ends_of", side_effect=wait) as asked:
            self.start()
            self.node.clock.advance(2 * INTERVAL_SECONDS)
            self.assertEqual(asked.call_count, 1)
            late.callback({("clicks", 0): 5})
        self.assertEqual(self.history(), [(NOW, 1)])
        self.node.clock.advance(INTERVAL_SECONDS)
        self.assertEqual(self.history(), [(NOW, 1), (NOW + 90_000, 6)])

    def test_the_end_of_serving_ends_a_late_sample(self) -> None:
        ended: list[str] = []

        async def wait(*_: object) -> None:
            try:
                await Deferred()
            finally:
                ended.append("ended")

        with patch("pylogbroker.web.sampler.ends_of", side_effect=wait):
            self.start()
            self.assertEqual(ended, [])
            self.source.stop()
        self.assertEqual(ended, ["ended"])


class TestHistoryRights(AnonymousTests, HistoryTests):
    def test_all_topics_of_the_group_must_be_visible(self) -> None:
        self.node.create("closed")
        self.commit("readers", "closed", 0)
        self.start()
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.assertIsNone(self.history())
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "closed")
        self.assertEqual(self.history(), [(NOW, 6)])
