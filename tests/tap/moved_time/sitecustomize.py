"""Sets the clock of an interpreter back by an hour at SIGUSR2; it is imported at the start, before all programs."""

import signal
import time
from typing import Any

_time = time.time
_offset = [0.0]


def _set_back(number: int, frame: Any) -> None:
    _offset[0] -= 3600.0


time.time = lambda: _time() + _offset[0]
signal.signal(signal.SIGUSR2, _set_back)
