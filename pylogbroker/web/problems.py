"""Problems of the cluster at the last look, and when each one was seen first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import attrs

_SHOWN_AFTER_MS: Final = 60_000

Kind = Literal["controller", "disk", "topic", "group", "transaction"]


@attrs.frozen
class ClusterProblem:
    """`subject` is the topic, group, transactional id or directory; `is_urgent` if data or progress is lost soon."""

    kind: Kind
    subject: str
    is_urgent: bool
    title: str
    detail: str


@attrs.frozen
class LastingProblem:
    problem: ClusterProblem
    since_ms: int


@attrs.define(eq=False, repr=False)
class Problems:
    looked_ms: int = attrs.field(default=0, init=False)
    _problems: Sequence[ClusterProblem] = attrs.field(default=(), init=False)
    _since: dict[tuple[Kind, str], int] = attrs.field(factory=dict, init=False)

    def note(self, problems: Sequence[ClusterProblem], now_ms: int) -> None:
        """Replace the problems by those that are there now."""
        self.looked_ms = now_ms
        keys = [(problem.kind, problem.subject) for problem in problems]
        self._since = {key: self._since.get(key, now_ms) for key in keys}
        self._problems = sorted(problems, key=lambda problem: not problem.is_urgent)

    def lasting(self, now_ms: int) -> list[LastingProblem]:
        """Return the problems that have lasted for a minute, the worst first."""
        shown = (LastingProblem(problem, self._since[problem.kind, problem.subject]) for problem in self._problems)
        return [lasting for lasting in shown if now_ms - lasting.since_ms >= _SHOWN_AFTER_MS]
