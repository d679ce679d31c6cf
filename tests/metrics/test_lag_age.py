"""Ages of lags, on partitions that grow as the test says."""

from __future__ import annotations

from pylogbroker.metrics.lag_age import READINGS_MAX, LagAges

KEY = ("clicks", 0)


def test_an_age_begins_with_the_first_scrape_that_sees_a_lag() -> None:
    ages = LagAges()
    assert ages.age(KEY, 5, 10, 100.0) == 0
    assert ages.age(KEY, 5, 10, 130.0) == 30
    assert ages.age(KEY, 9, 12, 160.0) == 60  # the record at 9 was there at the first scrape


def test_a_later_record_is_younger() -> None:
    ages = LagAges()
    ages.age(KEY, 0, 10, 100.0)
    ages.age(KEY, 0, 10, 150.0)  # nothing has come until then
    ages.age(KEY, 0, 20, 160.0)
    assert ages.age(KEY, 0, 20, 200.0) == 100
    assert ages.age(KEY, 10, 20, 200.0) == 50
    assert ages.age(KEY, 15, 20, 200.0) == 45  # records come evenly between two scrapes


def test_groups_share_the_readings() -> None:
    ages = LagAges()
    assert [ages.age(KEY, committed, 10, 100.0) for committed in (2, 7)] == [0, 0]
    assert [ages.age(KEY, committed, 30, 110.0) for committed in (2, 20)] == [10, 5]


def test_partitions_without_lag_are_forgotten() -> None:
    ages = LagAges()
    ages.age(KEY, 0, 10, 100.0)
    ages.forget_others({KEY})
    assert ages.age(KEY, 0, 10, 110.0) == 10
    ages.forget_others(())  # a scrape in which nobody was behind
    assert ages.age(KEY, 0, 10, 120.0) == 0


def test_long_histories_are_thinned_out_and_stay_nearly_right() -> None:
    ages = LagAges()
    for second in range(10_000):
        ages.age(KEY, 0, second + 1, float(second))
    (readings,) = ages._readings.values()
    assert len(readings) <= READINGS_MAX
    for committed in (0, 1, 500, 5_000, 9_000, 9_990):
        true = 9_999 - committed
        assert abs(ages.age(KEY, committed, 10_000, 9_999.0) - true) <= true / 8 + 1, committed


def test_a_truncated_partition_is_no_error() -> None:
    ages = LagAges()
    ages.age(KEY, 0, 10, 100.0)
    assert 0 <= ages.age(KEY, 3, 5, 110.0) <= 10
