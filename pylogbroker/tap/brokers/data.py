"""Brokers whose data is below the given directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from pylogbroker.java.text import is_digits
from pylogbroker.storage import LogDirectories

BROKER_DIRECTORIES: Final = "brokers"


def known_ids(directories: Sequence[str]) -> list[int]:
    """Return the ids of the brokers with data, that of the first broker first; empty for no data. Blocks.

    Raise StartupError if a meta.properties is damaged.
    """
    others = sorted({broker for directory in directories for broker in brokers_below(directory)})
    first = LogDirectories(directories).read_identity().broker_id
    if first is None:
        return [0, *others] if others else []
    return [first, *others]


def brokers_below(directory: str) -> list[int]:
    """Return the ids of brokers other than the first with data in a directory. Blocks."""
    try:
        return [int(name) for name in os.listdir(os.path.join(directory, BROKER_DIRECTORIES)) if is_digits(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
