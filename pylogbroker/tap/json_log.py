"""Lines of the log as JSON: an object for each event.

    {"time": "2026-11-23T22:15:01.123456Z", "level": "info", "namespace": "pylogbroker.tap.lifecycle",
     "text": "listening on PLAINTEXT://127.0.0.1:9092", "fields": {"endpoint": "PLAINTEXT://127.0.0.1:9092"}}

`fields` has the values that the text has, and no others, so that it reveals no more. A failure has its
`traceback`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from string import Formatter
from typing import Any, Final, TextIO

from twisted.logger import FileLogObserver, ILogObserver, LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure

_PLAIN: Final = (str, int, float, bool, type(None))
_FORMATTER: Final = Formatter()


def json_file_observer(file: TextIO) -> ILogObserver:
    return FileLogObserver(file, _format_as_json)


def _format_as_json(event: LogEvent) -> str:
    """Return a line with its end."""
    level = event.get("log_level") or LogLevel.info
    time = datetime.fromtimestamp(event["log_time"], UTC).replace(tzinfo=None)
    line: dict[str, Any] = {
        "time": f"{time.isoformat(timespec='microseconds')}Z",
        "level": level.name,
        "namespace": event.get("log_namespace", ""),
        "text": formatEvent(event),
    }
    if fields := dict(_fields(event)):
        line["fields"] = fields
    if isinstance(failure := event.get("log_failure"), Failure):
        line["traceback"] = failure.getTraceback()
    return json.dumps(line, ensure_ascii=False) + "\n"


def _fields(event: LogEvent) -> Iterator[tuple[str, Any]]:
    """Yield the fields that the text has."""
    for _, field, _, _ in _FORMATTER.parse(event.get("log_format") or ""):
        name = "" if field is None else field.partition(".")[0].partition("[")[0].removesuffix("()")
        if name in event and not name.startswith("log_"):
            value = event[name]() if field == f"{name}()" else event[name]
            yield name, value if isinstance(value, _PLAIN) else str(value)
