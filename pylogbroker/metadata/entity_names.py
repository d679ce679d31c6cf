"""Names of users, clients and the like as names of nodes, as Kafka's Sanitizer writes them."""

from __future__ import annotations

from urllib.parse import quote, unquote


def sanitized(name: str) -> str:
    """Return the name of the node."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(node: str) -> str:
    return unquote(node)
