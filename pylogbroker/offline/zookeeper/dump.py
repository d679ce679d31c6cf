"""Parse dumps of nodes.

JSON: one object that maps each node's path to its data, or null.

    {"/brokers/topics/events/0": "4", "/consumers/readers/offsets/events/0-1": "1042"}

Listing: a line per node, then its data as a Python literal. Later entries override earlier ones:

    + /brokers/topics/events/0  v=0 cv=0            a new node; text after the path is ignored
          b'4'
    ~ /brokers/topics/events/0                      a changed node
          b'8'
    - /brokers/topics/events/0                      a deleted node
"""

from __future__ import annotations

import ast
import json
import re
from typing import Final

from pylogbroker.offline.zookeeper.errors import BadFile

_ENTRY: Final = re.compile(r"([+~-]) (/\S*)")


def read_json(text: str) -> dict[str, bytes]:
    """Raise BadFile for other texts."""
    try:
        nodes = json.loads(text)
    except ValueError as error:
        raise BadFile(f"not JSON: {error}") from error
    if not isinstance(nodes, dict) or not all(isinstance(data, str | None) for data in nodes.values()):
        raise BadFile("expected one JSON object with a text or null for each path")
    return {path: (data or "").encode() for path, data in nodes.items()}


def read_listing(text: str) -> dict[str, bytes]:
    """Return final data; raise BadFile if invalid."""
    nodes: dict[str, bytes] = {}
    path = ""
    for number, line in enumerate(text.splitlines(), 1):
        entry = _ENTRY.match(line)
        if entry and entry[1] == "-":
            nodes.pop(entry[2], None)
            path = ""
        elif entry:
            path = entry[2]
            nodes[path] = b""
        elif path:
            nodes[path] = _data(line.strip(), number)
            path = ""
    return nodes


def _data(literal: str, number: int) -> bytes:
    try:
        parsed = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        raise BadFile(f"line {number} is not a Python literal: {literal[:60]}") from None
    return parsed if isinstance(parsed, bytes) else b""
