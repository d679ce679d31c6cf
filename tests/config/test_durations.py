"""Durations: a whole number and a unit."""

from __future__ import annotations

import pytest

from pylogbroker.config import durations


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("12h", 43_200_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
    ],
)
def test_units(text: str, ms: int) -> None:
    assert durations.milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "5", "h", "-1s", "1.5h", "1y", "1h30m", "9" * 16 + "s"])
def test_no_durations(text: str) -> None:
    assert durations.milliseconds(text) is None


def test_other_units() -> None:
    assert durations.milliseconds("5", {"": 1}) == 5
    assert durations.milliseconds("5s", {"": 1}) is None
