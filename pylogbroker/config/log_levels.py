"""Log levels: `logger.levels` has one for everything, others for packages.

info,pylogbroker.groups=debug       all events of `pylogbroker.groups`; info and above elsewhere
"""

from __future__ import annotations

DEFAULT = ""
"""All other packages."""

LEVELS = ("debug", "info", "warn", "error", "critical")


def parse_log_levels(text: str) -> dict[str, str]:
    """Return levels by package or `DEFAULT`; the last of several counts. Raise ValueError."""
    levels = {DEFAULT: "info"}
    for item in filter(None, (part.strip() for part in text.split(","))):
        package, equals, level = (part.strip() for part in item.rpartition("="))
        if level.lower() not in LEVELS or (equals and not package):
            raise ValueError("not a level")
        levels[package] = level.lower()
    return levels
