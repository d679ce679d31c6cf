"""Names of users, clients and the like as names of nodes, as Kafka's Sanitizer writes them.

That is Java's URL encoding, with %20 for a space and %2A for an asterisk.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_plus


def sanitized(name: str) -> str:
    """Return the name of the node."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(node: str) -> str:
    return unquote_plus(node)
