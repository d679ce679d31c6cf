"""History of the lag of groups that this broker coordinates: a ring of samples, until the broker stops.

The last `SAMPLES_MAX` samples hold an hour. A group that another broker has coordinated meanwhile has an empty ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

INTERVAL_SECONDS: Final = 30.0
SAMPLES_MAX: Final = 120
SPARSE_STEP: Final = 5
"""Every fifth sample is drawn in a small chart, which has no more columns."""
GROUPS_MAX: Final = 1000
"""Groups with a history; later ones have none until others are gone."""


@attrs.frozen
class LagSample:
    time_ms: int
    lag: int | None
    """None if nobody knew where the partitions end."""


@attrs.frozen
class GroupPace:
    """Pace of a group: records a second between the last two samples, and the age of its oldest unread record.

    `behind_ms` is 0 without lag, and None if it is not known. With `is_behind_more`, it is at least that.
    """

    topics: tuple[str, ...]
    read: float | None
    written: float | None
    behind_ms: int | None
    is_behind_more: bool = False


@attrs.define(eq=False, repr=False)
class GroupLags:
    _times: deque[int] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    totals: deque[LagSample] = attrs.field(factory=lambda: deque(maxlen=SAMPLES_MAX), init=False)
    """Lag of all sampled groups together, as far as it was known."""
    _lags: dict[str, deque[int | None]] = attrs.field(factory=dict, init=False)
    """Lags by group; the last ones are those of the last times."""
    topics: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict, init=False)
    """Lag in a topic by group at the last sample, of groups that have an offset there."""

    paces: Mapping[str, GroupPace] = attrs.field(factory=dict, init=False)
    """Paces of the sampled groups at the last sample."""

    def choose(self, group_ids: Iterable[str]) -> set[str]:
        """Return the groups to sample: those with a history first."""
        sampled: set[str] = set()
        new: list[str] = []
        for group_id in group_ids:
            if group_id in self._lags:
                sampled.add(group_id)
            elif len(new) < GROUPS_MAX:
                new.append(group_id)
        return sampled | set(new[: GROUPS_MAX - len(sampled)])

    def note(self, time_ms: int, lags: Mapping[str, int | None]) -> None:
        """Add a sample of all chosen groups, and forget the other groups."""
        self._times.append(time_ms)
        sampled = [lag for lag in lags.values() if lag is not None]
        self.totals.append(LagSample(time_ms, sum(sampled) if sampled or not lags else None))
        self._lags = {group_id: self._lags.get(group_id, deque(maxlen=SAMPLES_MAX)) for group_id in lags}
        for group_id, lag in lags.items():
            self._lags[group_id].append(lag)

    def of(self, group_id: str) -> list[LagSample]:
        """Return the samples of a group, the oldest first."""
        lags = self._lags.get(group_id, ())
        return list(map(LagSample, list(self._times)[len(self._times) - len(lags) :], lags))

    def last(self, group_id: str) -> int | None:
        """Return the lag at the last sample; None if it is not known."""
        lags = self._lags.get(group_id)
        return lags[-1] if lags else None

    def sparse(self, group_id: str) -> list[int | None]:
        """Return the last lag, and each `SPARSE_STEP`th before it, the oldest first."""
        return list(self._lags.get(group_id, ()))[::-SPARSE_STEP][::-1]

    def growing(self, samples: int, lag_min: int) -> dict[str, tuple[int, int]]:
        """Return the lag then and now of groups whose lag has grown for so many samples, to `lag_min` or more."""
        growing: dict[str, tuple[int, int]] = {}
        for group_id, lags in self._lags.items():
            recent = [lag for lag in list(lags)[-samples - 1 :] if lag is not None]
            halves = recent[: len(recent) // 2], recent[len(recent) // 2 :]
            if len(recent) > samples and recent[-1] >= lag_min and max(halves[0]) < min(halves[1]):
                growing[group_id] = recent[0], recent[-1]
        return growing

    def growth_a_minute(self, group_id: str) -> int | None:
        """Return how much the lag grew in a minute, over the last five; None without samples of these."""
        lags = list(self._lags.get(group_id, ()))[-11:]
        if len(lags) < 3 or lags[0] is None or lags[-1] is None:
            return None
        return round((lags[-1] - lags[0]) * 2 / (len(lags) - 1))
