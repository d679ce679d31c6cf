"""Budget of tests that choose at random: what `make test` has time for, or everything with `--thorough`.

    def test_kills(budget: Budget) -> None:
        kills, seconds = budget.of((10, 12.0), (100, 120.0))
        chance = budget.chance("kills")

`make quick` has less time: there `some` returns fewer places, and `all_or_some` a part of them.

All choices follow from one number, the run's seed, which changes with each run. The end of the run's output shows it,
and `--seed` repeats its choices.  A test that asks for `budget` has the marker `thorough`, by which
`make oracle` selects it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TypeVar

import attrs
import pytest

from tests.support.examples import examples

T = TypeVar("T")


@attrs.frozen
class Budget:
    """Budget of this run, and its seed."""

    thorough: bool
    seed: int

    def of(self, usual: T, thorough: T) -> T:
        """Return one of two sizes."""
        return thorough if self.thorough else usual

    def chance(self, name: str) -> random.Random:
        """Return a source of choices that depends on the run's seed and this name only."""
        print(f"--seed {self.seed}")  # is in the report of a test that fails
        return random.Random(f"{self.seed} {name}")

    def some(self, places: Sequence[T], name: str) -> list[T]:
        """Return all places if thorough, else the first, the last, and a quarter of the others, or fewer if quick."""
        return list(places) if self.thorough else self._chosen(places, examples(100, quick=5), name)

    def all_or_some(self, places: Sequence[T], name: str) -> list[T]:
        """Return all places, but the first, the last and a quarter of the others in `make quick`."""
        return list(places) if self.thorough else self._chosen(places, examples(400, quick=20), name)

    def _chosen(self, places: Sequence[T], per_cent: int, name: str) -> list[T]:
        """Choose so many of 100; `examples` gives a quarter of a number in `make test`."""
        if len(places) < 3 or per_cent >= 100:
            return list(places)
        chosen = self.chance(name).sample(range(1, len(places) - 1), (len(places) - 2) * per_cent // 100)
        return [places[index] for index in (0, *sorted(chosen), len(places) - 1)]

    def seed_of(self, name: str) -> int:
        """Return a seed that depends on the run's and this name only."""
        return self.chance(name).randrange(1 << 30)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--thorough", action="store_true", help="kill and try at random for long")
    parser.addoption("--seed", type=int, help="choose at random as the run did that showed this number")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed unless one is given; xdist's workers are given that of the run."""
    config.addinivalue_line("markers", "thorough: the test does more with --thorough (set by its fixture `budget`)")
    if config.option.seed is None:
        config.option.seed = int(time.time())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that has a budget."""
    if isinstance(item, pytest.Function) and "budget" in item.fixturenames:
        item.add_marker("thorough")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the seed."""
    terminalreporter.write_line(f"random choices of this run: --seed {config.option.seed}")


@pytest.fixture(scope="session")
def budget(pytestconfig: pytest.Config) -> Budget:
    """Budget of this run."""
    return Budget(pytestconfig.option.thorough, pytestconfig.option.seed)
