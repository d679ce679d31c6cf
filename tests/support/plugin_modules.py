"""Plugins for a test, as if somebody had installed them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pylogbroker import plugins as package

Put = Callable[[str, str], Path]


@contextmanager
def plugin_modules(root: Path) -> Iterator[Put]:
    """Puts modules of these names and contents where plugins are looked for; they are gone when the block ends.

    Nothing that was remembered before counts: a test in the same process may have prepared it for forks.
    """
    directory = root / "pylogbroker" / "plugins"
    directory.mkdir(parents=True)

    def write(name: str, content: str) -> Path:
        path = directory / f"{name}.py"
        path.write_text(content)
        sys.modules.pop(f"{package.__name__}.{name}", None)
        return path

    with (
        patch.object(package, "__path__", [*package.__path__, str(directory)]),
        patch("pylogbroker.discovery._remembered", []),
    ):
        yield write
    for path in directory.glob("*.py"):
        sys.modules.pop(f"{package.__name__}.{path.stem}", None)
