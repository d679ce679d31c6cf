"""The text of `logger.levels`: a level for all, and other ones for packages.

info,pylogbroker.groups=debug       of `pylogbroker.groups` everything, of all others what is info or more
"""

from __future__ import annotations

DEFAULT = ""
"""Stands for all packages that are not named."""

LEVELS = ("debug", "info", "warn", "error", "critical")


def parse_log_levels(text: str) -> dict[str, str]:
    """The level of each package that is named, and of `DEFAULT`; the last one counts.  ValueError."""
    levels = {DEFAULT: "info"}
    for item in filter(None, (part.strip() for part in text.split(","))):
        package, equals, level = (part.strip() for part in item.rpartition("="))
        if level.lower() not in LEVELS or (equals and not package):
            raise ValueError("not a level")
        levels[package] = level.lower()
    return levels
