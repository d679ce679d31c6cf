"""Writes the OpenAPI documents of all HTTP interfaces: `python -m pylogbroker.testing.openapi docs/openapi`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pylogbroker.registry.rest.routes import registry_document
from pylogbroker.testing.control.site import control_document
from pylogbroker.web.description import page_document

_LINE_MAX: Final = 110
DOCUMENTS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "control.json": control_document,
    "schema-registry.json": registry_document,
    "web-ui.json": page_document,
}


def text_of(document: Mapping[str, Any]) -> str:
    return _written(document, 0) + "\n"


def _written(value: Any, depth: int) -> str:
    """Return JSON, with objects and lists on one line where that is short."""
    line = json.dumps(value)
    if len(line) + 2 * depth <= _LINE_MAX or not isinstance(value, dict | list):
        return line
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(value, list):
        return f"[{inner}" + f",{inner}".join(_written(item, depth + 1) for item in value) + f"{outer}]"
    members = (f"{json.dumps(name)}: {_written(member, depth + 1)}" for name, member in value.items())
    return f"{{{inner}" + f",{inner}".join(members) + f"{outer}}}"


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in DOCUMENTS.items():
        (directory / name).write_text(text_of(document()), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
