"""Types of parameters that several views have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import NUMBER_MAX, Capped, Trimmed, whole_number

ROWS_MAX: Final = 200
INT32_MAX: Final = 2**31 - 1

Search = Annotated[str, Trimmed, "part of the name"]
Start = Annotated[int, Capped(), "number of the first row"]
Count = Annotated[int, Capped(ROWS_MAX), f"at most so many rows, {ROWS_MAX} at most"]
Index = Annotated[int, Capped(INT32_MAX)]
Offset = Annotated[int, Capped()]
Name = Annotated[str, Trimmed]
Time = Annotated[str | int, Trimmed, "milliseconds since 1970, or ISO 8601, in UTC unless it says"]


def milliseconds(given: str | int) -> int:
    """Return milliseconds since 1970 of a number, or of a time in ISO 8601, which is UTC unless it says."""
    text = str(given).strip()
    number = whole_number(text)
    if number is not None and number >= 0:
        return min(number, NUMBER_MAX)
    try:
        time = datetime.fromisoformat(text)
        return max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadRequest("time must be milliseconds since 1970, or like 2026-01-31T12:00") from None
