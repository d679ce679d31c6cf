"""Tests that read the real clock or sleep: `tests/wall_time.toml` lists their files with the reason.

Such a test depends on the speed of the machine. Simulated time (`task.Clock`, `pylogbroker.testing`, the simulation)
and events (`tests/support/waiting.py`, `tests.support.reactor_run.wait_for`) do not. The numbers of the list may only
fall.

    [a-group]
    reason = "..."

    [a-group.uses]
    "tests/one.py" = 2

These are uses:

- `time.sleep`, another `sleep` with a time, and a wait for an event that nobody sets;
- `time.monotonic` and `time.perf_counter`, but not `time.time`, which makes timestamps;
- an assertion with a timeout of less than a minute.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from tests.lint.checks import Finding
from tests.lint.texts import PythonFile

LIST = Path("tests/wall_time.toml")
TESTS = Path("tests")
#: A machine that stands still for so long fails tests anyway.
LIMIT_SECONDS_MIN = 60
_CLOCKS = frozenset(("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"))


@attrs.frozen
class WallTime:
    """Files that may depend on wall time, and how often."""

    uses: Mapping[Path, int]
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> WallTime:
        """Read the list."""
        uses: dict[Path, int] = {}
        problems = []
        for name, group in tomllib.loads(path.read_text()).items():
            if not group.get("reason"):
                problems.append(f"the group {name} has no reason")
            for file, count in group["uses"].items():
                if Path(file) in uses:
                    problems.append(f"{file} is in more than one group")
                uses[Path(file)] = count
        return cls(uses, tuple(problems))


def findings(files: Iterable[PythonFile], allowed: WallTime) -> Iterator[Finding]:
    """Yield files that depend on wall time more often, or less, than the list says."""
    for problem in allowed.problems:
        yield Finding(LIST, 1, problem)
    counts = dict.fromkeys(allowed.uses, 0)
    for file in files:
        lines = sorted(uses_in(file))
        counts[file.path] = len(lines)
        most = allowed.uses.get(file.path, 0)
        if len(lines) > most:
            yield Finding(
                file.path,
                lines[-1],
                f"{len(lines)} uses of wall time (lines {', '.join(map(str, lines))}), allowed: {most}; wait for an"
                f" event or use a simulated clock, or give the reason in {LIST}",
            )
    for path, most in sorted(allowed.uses.items()):
        if counts[path] < most:
            yield Finding(LIST, 1, f"{path} has {counts[path]} uses of wall time, not {most}: set the number to this")


def uses_in(file: PythonFile) -> Iterator[int]:
    """Yield the line of each use of wall time."""
    imported = {
        alias.asname or alias.name
        for node in file.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "sleep" or (node.module == "time" and alias.name in _CLOCKS)
    }
    for node in file.nodes:
        if isinstance(node, ast.Assert):
            yield from (call.lineno for call in ast.walk(node.test) if _is_short_wait(call))
        elif _reads_a_clock(node) or (isinstance(node, ast.Call) and _sleeps(node, imported)):
            yield node.lineno


def _reads_a_clock(node: ast.AST) -> bool:
    """Return whether this is `time.monotonic`, `asyncio.sleep` and the like, called or not."""
    return isinstance(node, ast.Attribute) and node.attr in _CLOCKS and _name_of(node.value) in ("time", "asyncio")


def _sleeps(call: ast.Call, imported: Container[str]) -> bool:
    return (_name_of(call.func) in imported and not _is_sleep_of_0(call)) or _is_sleep_on_an_event(call)


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_sleep_of_0(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _is_sleep_on_an_event(call: ast.Call) -> bool:
    """Return whether this is `Event().wait(...)`, a `sleep` by another name."""
    waited = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "wait" else None
    return isinstance(waited, ast.Call) and ast.unparse(waited.func).split(".")[-1] == "Event"


def _is_short_wait(node: ast.AST) -> bool:
    """Return whether a call has a timeout of less than a minute."""
    keywords = node.keywords if isinstance(node, ast.Call) else ()
    limits = [keyword.value for keyword in keywords if keyword.arg in ("timeout", "seconds")]
    return any(isinstance(limit, ast.Constant) and 0 < float(limit.value) < LIMIT_SECONDS_MIN for limit in limits)
