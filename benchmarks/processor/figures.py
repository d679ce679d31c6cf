"""Figures of a work, and their comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import attrs

LOSS_MAX = 0.05


@attrs.frozen
class Figures:
    """Microseconds of processor time for each request, of broker and floor."""

    lowest: float
    quartile: float
    floor: float

    @classmethod
    def of(cls, broker: Iterable[float], floor: Iterable[float]) -> Self:
        """Take the lowest samples, and the broker's lower quartile."""
        samples = sorted(broker)
        return cls(samples[0], samples[len(samples) // 4], min(floor))

    @property
    def ratio(self) -> float:
        return self.lowest / self.floor


def median_run(runs: Sequence[Mapping[str, Figures]]) -> dict[str, Figures]:
    """Return the figures of each work from the run with the median ratio.

    A rare sample of the floor can be lower than all others, so the lowest or highest ratio would be a chance.
    """
    return {name: sorted((run[name] for run in runs), key=_ratio)[len(runs) // 2] for name in runs[0]}


def better(first: Mapping[str, Figures], second: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return all of `first`, with the figures of `second` where their ratio is lower."""
    return {name: min(figures, second.get(name, figures), key=_ratio) for name, figures in first.items()}


def _ratio(figures: Figures) -> float:
    return figures.ratio


def loss(ratio: float, recorded: float) -> float:
    """Return by what share a ratio is above the recorded one; negative for a gain."""
    return ratio / recorded - 1


def losses(figures: Mapping[str, Figures], recorded: Mapping[str, float]) -> list[str]:
    """Return the works that lost more than allowed; works without a record lose nothing."""
    return [
        name for name, found in figures.items() if name in recorded and loss(found.ratio, recorded[name]) > LOSS_MAX
    ]
