"""The text of metrics, read by prometheus-client's parser."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from pylogbroker.long_loops import at_once
from pylogbroker.metrics.declarations import Family, Kind
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.network import ERRORS_MAX, bounded_errors
from pylogbroker.metrics.recent_rate import RecentRate

STRANGE = 'a "quoted" \\ back\nslash, {é}'


def test_labels_and_values_come_through() -> None:
    out = Exposition()
    count, size = Family("c_total", Kind.COUNTER, ("name",), "Counts."), Family("g", Kind.GAUGE, (), "A size.")
    out.add(count, 2**53, STRANGE)
    out.add(size, 0.5)
    out.add(count, 7)
    text = b"".join(at_once(out.encode())).decode()
    found = {
        (sample.name, sample.labels.get("name")): (sample.value, family.type)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == {
        ("c_total", STRANGE): (2**53, "counter"),
        ("c_total", None): (7, "counter"),
        ("g", None): (0.5, "gauge"),
    }
    assert text.count("# TYPE c_total counter\n") == 1


def test_long_text_is_made_in_steps() -> None:
    out = Exposition()
    family = Family("g", Kind.GAUGE, ("n",), "Numbers.")
    for number in range(10_000):
        out.add(family, number, str(number))
    assert sum(1 for _ in out.encode().__await__()) >= 5


def test_a_rate_covers_about_the_last_minute() -> None:
    rate = RecentRate()
    assert rate.update(100.0, 50) == 0
    assert rate.update(110.0, 70) == 2
    assert rate.update(160.0, 170) == 2
    assert rate.update(170.0, 170) == 100 / 60
    assert rate.update(300.0, 170) == 0


def test_errors_have_a_bound() -> None:
    errors = Counter({("Produce", f"E{number}"): number + 1 for number in range(ERRORS_MAX + 10)})
    shown = bounded_errors(errors)
    assert len(shown) == ERRORS_MAX + 1
    assert shown["Produce", "OTHER"] == sum(range(1, 11))
    assert shown.total() == errors.total()
