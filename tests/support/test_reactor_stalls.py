"""Work whose stalls are counted: it is done again, and must be without them once."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.support import reactor_stalls
from tests.support.budget import Budget
from tests.support.reactor_stalls import ATTEMPTS, STALL, check_stalls

LONG = f"{STALL} for 900000 ms"


def attempts(*lines: list[str]) -> int:
    """Return how often work was done whose attempts log these lines."""
    process, done = Mock(), []
    process.process.lines = [LONG]

    def work(attempt: int) -> None:
        process.process.lines += lines[attempt]
        done.append(attempt)

    check_stalls(process, Budget(False, 1), work)
    return len(done)


def test_work_is_done_until_it_has_no_stalls() -> None:
    assert attempts([]) == 1
    assert attempts([LONG], [f"{STALL} for 1 ms"]) == 2


def test_stalls_of_each_attempt_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor_stalls, "_limit_ms", lambda budget: 50.0)
    with pytest.raises(AssertionError, match="900000"):
        attempts(*[[LONG]] * ATTEMPTS)
