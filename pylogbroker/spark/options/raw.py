"""Raw options, as Spark passes them, with typed accessors.

Names are case-insensitive. An unknown name that resembles a known one is an error: it is probably misspelt. Others
cause a warning.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylogbroker.config import durations
from pylogbroker.config.parsing import closest
from pylogbroker.errors import ConfigError

log = logging.getLogger(__name__)

LONG_MAX: Final = (1 << 63) - 1
"""Java's Long.MaxValue, commonly "no limit"."""
_READ: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "pushFilters",
)
_WRITE: Final = ("topic", "includeHeaders", "exactlyOnce", "transactionalIdPrefix")
_SPARKS: Final = frozenset({"path", "checkpointlocation", "querycomment", "__dummy__"})  # set by Spark
_KAFKA: Final = "kafka."
_SIMILARITY_MIN: Final = 0.8
_UNITS_MS: Final = {**durations.UNITS_MS, "": 1, "min": 60_000}  # as Spark has them


class RawOptions:
    """Options by lower-case name; `warnings` describe ignored ones."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._raw = {name.lower(): str(value) for name, value in raw.items()}
        self.warnings: list[str] = []
        names = {name.lower(): name for name in (*_READ, *_WRITE)}  # users often pass the same options to both
        for name in self._raw:
            if name not in names and name not in _SPARKS and not name.startswith(_KAFKA):
                self._unknown(name, names)

    def _unknown(self, name: str, names: Mapping[str, str]) -> None:
        meant = closest(name, [*names, "kafka.bootstrap.servers"], _SIMILARITY_MIN)
        if meant is not None:
            raise ConfigError(f"option {name} is unknown: did you mean {names.get(meant, meant)}?")
        self.warnings.append(f"option {name} is unknown and ignored")

    def of_clients(self) -> dict[str, str]:
        return {name.removeprefix(_KAFKA): text for name, text in self._raw.items() if name.startswith(_KAFKA)}

    def text(self, name: str) -> str | None:
        return self._raw.get(name.lower())

    def reject(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if self.text(name) is not None:
                raise ConfigError(f"option {name} is not accepted: {why}")

    def ignore(self, names: Iterable[str], why: str) -> None:
        self.warnings += [f"option {name} is ignored: {why}" for name in names if self.text(name) is not None]

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"option {name}: {text!r} is not accepted; expected true or false")
        return text.lower() == "true"

    def integer(self, name: str, least: int = 1, most: int = LONG_MAX) -> int | None:
        """Return an integer within [least, most]; None if not set."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", text) or not least <= int(text) <= most:
            raise ConfigError(
                f"option {name}: {text!r} is not accepted; expected a whole number from {least} to {most}"
            )
        return int(text)

    def milliseconds(self, name: str, default: int) -> int:
        """Return ms; units are Spark's: 15m, 30s, 500ms, or a bare number of ms."""
        text = self.text(name)
        if text is None:
            return default
        duration = durations.milliseconds(text.strip().lower(), _UNITS_MS)
        if duration is None:
            raise ConfigError(f"option {name}: {text!r} is not accepted; expected a time such as 500ms, 30s, 15m or 1h")
        return duration

    def json(self, name: str) -> Any:
        """Return a value of JSON, or None if the text is none."""
        try:
            return json.loads(self.text(name) or "")
        except ValueError:
            return None


def log_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        log.warning("%s", warning)
