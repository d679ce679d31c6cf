"""Peak memory of a call, native code included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@attrs.define
class Growth:
    """The growth of the resident memory's high-water mark, in bytes."""

    bytes: int = 0


def _resident(field: str) -> int:
    [line] = [line for line in _STATUS.read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024


@contextmanager
def peak_growth() -> Iterator[Growth]:
    """Measures what happens inside of the `with`."""
    growth = Growth()
    _CLEAR.write_text("5")  # resets the high-water mark
    before = _resident("VmRSS:")
    yield growth
    growth.bytes = _resident("VmHWM:") - before
