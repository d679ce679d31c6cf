"""Data loss: offsets to read that no longer exist."""

from __future__ import annotations

import logging

from pylogbroker.errors import PylogbrokerError

log = logging.getLogger(__name__)


class DataLost(PylogbrokerError):
    """Data may have been lost: the log was truncated, or its topic deleted or recreated."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"some data may have been lost: {what}. To continue without it, set the option failOnDataLoss to false"
        )


def lost(is_error: bool, what: str, cause: Exception | None = None) -> None:
    """Raise DataLost, or log a warning."""
    if is_error:
        raise DataLost(what) from cause
    log.warning("some data may have been lost: %s", what)
