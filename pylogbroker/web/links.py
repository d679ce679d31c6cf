"""Addresses of pages."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def link(path: str, /, **parameters: object) -> str:
    """Return an address here with those parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value not in ("", None)}
    return f"/{path.removeprefix('/')}" + (f"?{urlencode(given)}" if given else "")


def topic_link(name: str, part: str = "records", /, **parameters: object) -> str:
    """Return the address of a part of a topic."""
    return link(f"/topics/{quote(name, safe='')}/{part}", **parameters)


def path_of(*parts: object) -> str:
    """Return the path of these parts, each of which may have any characters."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)
