"""Options as Spark gives them: texts by name, read as values.

    given = Given({"minPartitions": "4"})
    given.whole("minPartitions")

Names are matched without regard to case, as Spark does it.  Spark's own source passes over names that it does not know.
Here one that looks like a known one is an error, since a misspelt option would silently not be one; any other is
passed over, with a warning.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylogbroker.config.table import closest
from pylogbroker.errors import ConfigError

log = logging.getLogger(__name__)

LARGEST: Final = (1 << 63) - 1
"""Java's Long.MaxValue, which people give for "no limit"."""
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
_SPARKS: Final = frozenset({"path", "checkpointlocation", "querycomment", "__dummy__"})  # that Spark puts among them
_KAFKA: Final = "kafka."
_ALIKE: Final = 0.8
_UNITS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Given:
    """The options of a source or a sink; `warnings` are about those that do nothing."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        self.warnings: list[str] = []
        names = {name.lower(): name for name in (*_READ, *_WRITE)}  # one set of options is often given to both
        for name in self._given:
            if name not in names and name not in _SPARKS and not name.startswith(_KAFKA):
                self._unknown(name, names)

    def _unknown(self, name: str, names: Mapping[str, str]) -> None:
        meant = closest(name, [*names, "kafka.bootstrap.servers"], _ALIKE)
        if meant is not None:
            raise ConfigError(f"option {name} is not known: did you mean {names.get(meant, meant)}?")
        self.warnings.append(f"option {name} is not known, and is passed over")

    def of_clients(self) -> dict[str, str]:
        """What begins with `kafka.`, without that."""
        return {name.removeprefix(_KAFKA): text for name, text in self._given.items() if name.startswith(_KAFKA)}

    def text(self, name: str) -> str | None:
        """The text of an option; None if it is not given."""
        return self._given.get(name.lower())

    def refuse(self, names: Iterable[str], why: str) -> None:
        """ConfigError if one of these is given."""
        for name in names:
            if self.text(name) is not None:
                raise ConfigError(f"option {name} is not accepted: {why}")

    def pass_over(self, names: Iterable[str], why: str) -> None:
        """A warning for each of these that is given."""
        self.warnings += [f"option {name} is passed over: {why}" for name in names if self.text(name) is not None]

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"option {name}: {text!r} is not accepted; expected true or false")
        return text.lower() == "true"

    def whole(self, name: str, least: int = 1, most: int = LARGEST) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", text) or not least <= int(text) <= most:
            raise ConfigError(
                f"option {name}: {text!r} is not accepted; expected a whole number from {least} to {most}"
            )
        return int(text)

    def milliseconds(self, name: str, default: int) -> int:
        """A duration as Spark writes them: 15m, 30s, 500ms; a bare number is milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        match = re.fullmatch(r"\s*(\d{1,15})\s*([a-z]*)\s*", text.lower())
        if match is None or match[2] not in _UNITS:
            raise ConfigError(f"option {name}: {text!r} is not accepted; expected a time such as 500ms, 30s, 15m or 1h")
        return int(match[1]) * _UNITS[match[2]]

    def json(self, name: str) -> Any:
        """What an option that is given says as JSON."""
        text = self.text(name) or ""
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigError(f"option {name}: {text!r} is not JSON: {error}") from None


def tell(warnings: Iterable[str]) -> None:
    """Log what was given and does nothing."""
    for warning in warnings:
        log.warning("%s", warning)
