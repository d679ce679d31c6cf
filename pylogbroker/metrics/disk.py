"""Metrics of what the process has read from disks and written to them, which Linux counts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition

COUNTS: Final = Path("/proc/self/io")
_FAMILIES: Final = {"read_bytes": families.DISK_READ, "write_bytes": families.DISK_WRITE}


def collect_disk(out: Exposition, counts: Path = COUNTS) -> None:
    """Write the counts; nothing on a system that has none, or does not show them."""
    try:
        lines = counts.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, count = line.partition(": ")
        if name in _FAMILIES:
            out.add(_FAMILIES[name], int(count))
