"""Recorded ratios to the floor, by machine: `benchmarks/processor/ratios.toml`.

A ratio depends on the processor, the kernel and Python. So each machine has a table of its own, under its description.
"""

import json
import math
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.errors import BenchmarkError

RECORD = Path(__file__).with_name("ratios.toml")
HEAD = """\
# Processor time of a request as a multiple of the floor's, for each machine.
# `python -m benchmarks.processor --record` writes the table of its machine.
"""
DATE = "date"
CURE = "restore it with git, or delete it and use --record"

Tables = dict[str, dict[str, str | float]]


def read(path: Path, machine: str) -> dict[str, float]:
    """Return the ratios of a machine by work, none if it has no table."""
    return {name: float(value) for name, value in _load(path).get(machine, {}).items() if name != DATE}


def machines(path: Path) -> list[str]:
    """Return the machines that have a table."""
    return list(_load(path))


def write(path: Path, machine: str, ratios: Mapping[str, float]) -> None:
    """Record ratios of a machine; other works and other machines keep theirs."""
    tables = _load(path)
    rounded = {name: round(ratio, 3) for name, ratio in ratios.items()}
    tables[machine] = {**tables.get(machine, {}), **rounded, DATE: time.strftime("%Y-%m-%d")}
    path.write_text("\n".join((HEAD, *(_table(name, entries) for name, entries in sorted(tables.items())))))


def _table(machine: str, entries: Mapping[str, str | float]) -> str:
    lines = (f"{name} = {json.dumps(value)}" for name, value in sorted(entries.items()))
    return "\n".join((f"[{json.dumps(machine)}]", *lines, ""))


def _load(path: Path) -> Tables:
    if not path.exists():
        return {}
    try:
        tables: Tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"{path} is not TOML: {error}; {CURE}") from None
    for machine, entries in tables.items():
        if not isinstance(entries, dict):
            raise BenchmarkError(f"{path}: {machine} is not a table; {CURE}")
        for name, value in entries.items():
            if name != DATE and not _is_ratio(value):
                raise BenchmarkError(f"{path}: {name} of {machine} is {value!r}, not a positive number; {CURE}")
    return tables


def _is_ratio(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
