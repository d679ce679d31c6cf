"""Users' points in time as milliseconds since 1970.

| argument                           | meaning                                                      |
|------------------------------------|--------------------------------------------------------------|
| 1700000000000                      | milliseconds, as number or text                              |
| 2023-11-14T22:13:20+00:00, ...20Z  | ISO 8601 with an offset from UTC                             |
| 2023-11-14                         | a date, or a time without an offset, in UTC                  |
| 90s, 30m, 12h, 7d                  | this long before now                                         |
| datetime                           | as it is; an error without an offset from UTC                |
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from pylogbroker.config import durations
from pylogbroker.errors import ConfigError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_MAX: Final = 1 << 53  # microseconds must fit

Time = int | str | datetime


def milliseconds(name: str, given: Time | None) -> int | None:
    """Convert a time, rounded up; errors have the argument's `name`. Raise ConfigError."""
    if given is None:
        return None
    moment = _from_text(name, given.strip()) if isinstance(given, str) else given
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError(f"{name}: {given} has no offset from UTC: give it a tzinfo")
        return -((_EPOCH - moment) // timedelta(milliseconds=1))
    if isinstance(moment, bool) or not isinstance(moment, int) or not 0 <= moment < _SECONDS_MAX:
        raise ConfigError(f"{name}: {given!r} is not accepted; expected a time, or milliseconds since 1970")
    return moment


def _from_text(name: str, text: str) -> int | datetime:
    if re.fullmatch(r"\d{1,19}", text):
        return int(text)
    ago_ms = durations.milliseconds(text)
    if ago_ms is not None:
        return time.time_ns() // 1_000_000 - ago_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{name}: {text!r} is not a time; expected one such as 2023-11-14T22:13:20Z, 2023-11-14, 12h (ago),"
            " or milliseconds since 1970"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
