"""Waits for what another process does, where there is no event to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

#: A condition of another process is checked this often.
POLL_SECONDS = 0.02


def wait_until(
    condition: Callable[[], object],
    seconds: float = 120.0,
    what: Callable[[], object] | None = None,
    *,
    meanwhile: Callable[[], object] | None = None,
) -> float:
    """Wait until `condition` is true, and return how long; TimeoutError after `seconds`, which shows `what()`.

    `meanwhile` is called between two looks, such as a consumer's poll, in place of a short sleep.
    """
    pause = partial(time.sleep, POLL_SECONDS) if meanwhile is None else meanwhile
    begun = time.monotonic()
    while not condition():
        if time.monotonic() > begun + seconds:
            state = "" if what is None else f": {what()}"
            raise TimeoutError(f"{condition} is not true within {seconds:g} s{state}")
        pause()
    return time.monotonic() - begun
