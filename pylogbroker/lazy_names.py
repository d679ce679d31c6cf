"""Names of a package that are imported on first use (PEP 562): a program does not wait for those that it does not use.

    __getattr__, __dir__ = lazy_names(__name__, {"Producer": ".producer"})

Type checkers read the same imports under TYPE_CHECKING.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the package's `__getattr__` and `__dir__`; `modules` has each name's module, perhaps relative."""

    def get(name: str) -> Any:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module, package), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
