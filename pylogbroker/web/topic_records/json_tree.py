"""JSON as a tree made of slices of its own text: order, numbers and members of the same name stay as they were."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.json_text import is_json

DEPTH_MAX: Final = 50
LINES_OPEN: Final = 200
"""Lines up to which a tree is unfolded."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^\s"\][{}:,]+')
_CLOSING: Final = {"{": "}", "[": "]"}


@attrs.define
class JsonNode:
    """`text` is the slice of a scalar, or the opening bracket; `name` that of its member, with quotes."""

    text: str
    name: str | None = None
    path: str = ""
    children: list[JsonNode] = attrs.field(factory=list)

    @property
    def is_object(self) -> bool:
        return self.text == "{"

    @property
    def is_list(self) -> bool:
        return self.text == "["

    @property
    def closing(self) -> str:
        return _CLOSING.get(self.text, "")

    @property
    def kind(self) -> str:
        """Return the kind of a scalar, as the classes of styles name it."""
        return "" if self.text.startswith('"') else "word" if self.text in ("true", "false", "null") else "num"

    @property
    def label(self) -> str:
        """Return the name without quotes, if it means the same without them."""
        name = self.name or ""
        return name[1:-1] if re.fullmatch(r'"[^"\\\x00-\x1f\s:]+"', name) else name

    @property
    def is_flat(self) -> bool:
        """A short object or list of scalars, which stands on one line."""
        return 0 < len(self.children) <= 3 and not any(child.closing for child in self.children) and self.size < 60

    @property
    def size(self) -> int:
        return len(self.text) + sum(child.size + len(child.name or "") for child in self.children)

    @property
    def lines(self) -> int:
        return 1 if self.is_flat else 1 + sum(child.lines for child in self.children)

    def part(self, steps: Sequence[str | int]) -> JsonNode | None:
        """Return the last of the nodes that a path leads to."""
        node: JsonNode | None = self
        for step in steps:
            if node is None:
                return None
            if isinstance(step, int):
                node = node.children[step] if node.is_list and step < len(node.children) else None
            else:
                members = [child for child in node.children if node.is_object and _unquoted(child.name) == step]
                node = members[-1] if members else None
        return node


def json_tree(text: str) -> JsonNode | None:
    """Return an object or a list of JSON; None for other texts, and for one that is nested too deeply."""
    if not is_json(text):
        return None
    root = JsonNode("")
    stack = [root]
    name: str | None = None
    for token in _TOKEN.findall(text):
        parent = stack[-1]
        if token in ("}", "]"):
            stack.pop()
        elif token in (":", ","):
            continue
        elif parent.is_object and name is None:
            name = token
        else:
            node = JsonNode(token, name, _path(parent, name))
            parent.children.append(node)
            name = None
            if token in _CLOSING:
                stack.append(node)
                if len(stack) > DEPTH_MAX:
                    return None
    return root.children[0]


def _path(parent: JsonNode, name: str | None) -> str:
    """Return the path of the next child, as conditions have it."""
    if name is not None:
        plain = re.fullmatch(r'"([^\W\d][\w$@-]*)"', name)
        return f"{parent.path}.{plain[1]}" if plain else f"{parent.path}[{name}]"
    return f"{parent.path}[{len(parent.children)}]" if parent.is_list else "value"


def _unquoted(name: str | None) -> str:
    return str(json.loads(name, strict=False)) if name else ""


def scalar_text(node: JsonNode) -> str:
    """Return what a cell shows: a text without quotes, else the slice; of objects and lists their extent."""
    if node.is_object or node.is_list:
        count = len(node.children)
        return f"{node.text} {count} {node.closing}"
    return _unquoted(node.text) if node.text.startswith('"') else node.text
