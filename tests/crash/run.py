"""One run: start, then kill, start again and judge, over and over; at the end stop, and judge what is on the disk.

The first start that shows something wrong ends the run; the data directory, the broker's lines and what was found are
kept then.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from tests.clients.admin import create_topic
from tests.crash.checks import Violation
from tests.crash.history import History, Promise
from tests.crash.kill_moments import MOMENTS, EventWaiter, KillContext, Moment
from tests.crash.killed_broker import KilledBroker
from tests.crash.log_checker import LogChecker
from tests.crash.reader import Reader
from tests.crash.workloads import RunContext, Workload

_WAIT_SECONDS_MAX = 120.0  # seconds for what is under way in the end
_LONGEST_SECONDS = 300.0  # until which kills go on for the sake of figures
_SOON = 3.0  # the same, when the run has failed already
_CLEAN_STOPS = 0.05  # of all ends of the broker are not crashes, so that what a clean stop leaves is met too


@attrs.define
class Outcome:
    """Result of a run."""

    violations: list[Violation]
    figures: dict[str, int | float]

    def number(self, name: str) -> float:
        """One of the figures."""
        return self.figures[name]

    def __str__(self) -> str:
        lines = [f"{value!s:>12}  {name}" for name, value in self.figures.items()]
        return "\n".join([*lines, *map(str, self.violations), f"{len(self.violations)} violations"])


class Run:
    """Kills until `kills` are done or `seconds` are over."""

    def __init__(
        self,
        directory: Path,
        workloads: Sequence[Workload],
        seed: int,
        report: Callable[[str], None] = print,
        *,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        moments: Mapping[str, Moment] = MOMENTS,
    ) -> None:
        self._directory, self._workloads, self._report, self._chosen_from = directory, workloads, report, moments
        self._chance = random.Random(seed)
        self._victim = KilledBroker(directory / "broker", settings, environment)
        self._history = History()
        self._reader = Reader(self._victim.bootstrap, self._victim.data_dir)
        self._judge = LogChecker(self._history, self._reader)
        self._trap = EventWaiter(self._victim.strike)
        self._world = RunContext(self._victim.bootstrap, self._history, self._reader, self._chance, self._trap.met)
        self._moments: Counter[str] = Counter()
        self._clean_stops = 0
        self._violations: list[Violation] = []

    def go(self, kills: int, seconds: float, fewest: int = 0, exceeded: Mapping[str, float] | None = None) -> Outcome:
        """The whole run: so many kills, or for so long, but for as many as the fewest in any case.

        On a slow machine, kills go on until the figures in `exceeded` are larger than their values.
        """
        begun = time.monotonic()
        try:
            self._begin()
            began_to_kill = time.monotonic()
            while not self._is_over():
                passed = time.monotonic() - began_to_kill
                is_done = self._victim.kills >= kills or (passed > seconds and self._victim.kills >= fewest)
                if is_done and (passed > _LONGEST_SECONDS or self._exceeds(exceeded or {})):
                    break
                self._end_life()
                self._victim.start()
                self._look(settled=False)
            self._finish()
        finally:
            self._victim.kill()
        return Outcome(self._violations, self._figures(time.monotonic() - begun))

    def _exceeds(self, least: Mapping[str, float]) -> bool:
        figures = self._figures(0.0) if least else {}
        return all(figures[name] > value for name, value in least.items())

    def _is_over(self) -> bool:
        return bool(self._violations) or all(workload.over for workload in self._workloads)

    def _begin(self) -> None:
        self._victim.start()
        for workload in self._workloads:
            for topic in workload.topics():
                create_topic(self._victim.bootstrap, topic.name, topic.partitions, topic.configs)
                if topic.judged:
                    self._judge.watch(topic.partition_keys, is_archived=topic.is_archived)
        for workload in self._workloads:
            workload.start(self._world)

    def _end_life(self) -> None:
        """Crash, or seldom stop, the broker."""
        if self._chance.random() < _CLEAN_STOPS:
            self._clean_stops += 1
            if status := self._victim.stop():
                self._violations.append(Violation("harness", f"a clean stop ended with {status}"))
            self._note_end()
            return
        moment = self._chance.choice(list(self._chosen_from))
        self._moments[moment] += 1
        self._chosen_from[moment](KillContext(self._victim, self._trap, self._chance, self._bury))
        self._bury()
        if self._victim.kills % 25 == 0:
            self._report(f"{self._victim.kills} kills; {self._progress()}")

    def _bury(self) -> None:
        self._victim.bury()
        self._note_end()

    def _note_end(self) -> None:
        """The broker is gone, all that it wrote is there to be seen, and what is sent now goes to another one."""
        self._judge.life_is_over()
        self._history.life += 1

    def _look(self, *, settled: bool) -> None:
        self._violations += self._judge.check(settled=settled)
        for workload in self._workloads:
            self._violations += workload.check(self._world, settled=settled)
        self._violations += [Violation("complaint", line) for line in self._victim.all_unexpected_errors()]

    def _finish(self) -> None:
        timeout = _SOON if self._violations else _WAIT_SECONDS_MAX
        for workload in self._workloads:
            workload.finish(timeout)
        if not self._violations:
            self._look(settled=True)
            self._victim.stop()
            self._violations += self._judge.check_files()
        if self._violations:
            (self._directory / "lines.txt").write_text("\n".join(self._victim.lines))
            (self._directory / "violations.txt").write_text("\n".join(map(str, self._violations)))

    def _progress(self) -> str:
        figures = {"records acknowledged": self._acknowledged(), **self._workloads_figures()}
        return ", ".join(f"{value} {name}" for name, value in figures.items() if "records" in name and value)

    def _workloads_figures(self) -> dict[str, int | float]:
        return {name: value for workload in self._workloads for name, value in workload.figures().items()}

    def _acknowledged(self) -> int:
        return sum(sent.acknowledged for sent in self._history.sent.values())

    def _figures(self, seconds: float) -> dict[str, int | float]:
        checked, cut = self._victim.recoveries
        contents = self._judge.contents.values()
        stamps = Counter(stamp for content in contents for stamp in content.records.values())
        sent, reads = self._history.sent.values(), self._history.readers.total()
        aborted = sum(len(one.failures) for one in sent if one.promise is Promise.AT_MOST_ONCE)
        return {
            "seconds": round(seconds),
            "kills": self._victim.kills,
            **{f"  {name}": count for name, count in sorted(self._moments.items())},
            "clean stops": self._clean_stops,
            "starts": self._victim.starts,
            "seconds, the slowest start": round(self._victim.slowest_start, 2),
            "logs checked at starts": checked,
            "logs cut": cut,
            "segments": sum(map(self._reader.segments, self._judge.contents)),
            "records acknowledged": self._acknowledged(),
            "records given up by producers that don't retry": aborted,
            "records in the logs": sum(stamps.values()),
            "records sent again, there more than once": sum(count - 1 for count in stamps.values()),
            "records read by groups": reads,
            "  of them for a second time, or more": reads - sum(map(len, self._history.seen.values())),
            **{f"  read by {name}": count for name, count in sorted(self._history.readers.items())},
            "commits acknowledged": sum(one.count for one in self._history.committed.values()),
            **self._workloads_figures(),
        }
