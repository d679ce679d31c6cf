"""What is lost: offsets that were to be read and are not there any more.

With `failOnDataLoss`, which is the default, it is an error.  Without, what is there is read, and a warning is logged.
"""

from __future__ import annotations

import logging

from pylogbroker.errors import PylogbrokerError

log = logging.getLogger(__name__)


class DataLost(PylogbrokerError):
    """Some data may have been lost: the log was cut off, or its topic has been deleted or made anew."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"some data may have been lost: {what}. If that is all right, set the option failOnDataLoss to false"
        )


def lost(is_error: bool, what: str, cause: Exception | None = None) -> None:
    """Raise DataLost, or else log it."""
    if is_error:
        raise DataLost(what) from cause
    log.warning("some data may have been lost: %s", what)
