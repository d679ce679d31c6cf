"""Source of `pylogbroker.client.sync.admin_parts`, made from the methods of the asynchronous parts.

    python -m tests.client.blocking_parts > pylogbroker/client/sync/admin_parts.py
    ruff check --fix pylogbroker/client/sync; ruff format pylogbroker/client/sync

A ParamSpec cannot add the keyword `timeout` to a method, so each method is written out.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pylogbroker.client.admin as admin

_PACKAGE: Final = "pylogbroker.client.admin"
_HEAD: Final = '''"""Types of the blocking admin client's parts.

This module is made by `python -m tests.client.blocking_parts`. Programs do not import it: a part is a `BlockingPart`.
Each method waits for its result, at most `timeout` seconds. `pylogbroker.client.admin` describes them.
"""

from __future__ import annotations
'''


def source() -> str:
    imports: defaultdict[str, set[str]] = defaultdict(set)
    classes: list[str] = []
    for path in sorted(Path(admin.__path__[0]).glob("*.py")):
        tree = ast.parse(path.read_text())
        origins = _origins(tree, f"{_PACKAGE}.{path.stem}")
        for part in tree.body:
            if isinstance(part, ast.ClassDef) and (methods := list(_methods(part))):
                classes.append("\n".join([f"class Blocking{part.name}(Protocol):", *map(_declared, methods)]))
                for name in {name for method in methods for name in _names(method)}:
                    imports[origins[name]].add(name)
    imports["typing"].add("Protocol")
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items())]
    return "\n".join([_HEAD, *lines, "", "", "\n\n\n".join(classes), ""])


def _methods(part: ast.ClassDef) -> Iterator[ast.AsyncFunctionDef]:
    for each in part.body:
        if isinstance(each, ast.AsyncFunctionDef) and "deferred" in map(ast.unparse, each.decorator_list):
            yield each


def _declared(method: ast.AsyncFunctionDef) -> str:
    given = method.args
    given.kwonlyargs.append(ast.arg("timeout", ast.parse("float | None", mode="eval").body))
    given.kw_defaults.append(ast.Constant(None))
    assert method.returns is not None
    return f"    def {method.name}({ast.unparse(given)}) -> {ast.unparse(method.returns)}: ..."


def _names(method: ast.AsyncFunctionDef) -> Iterator[str]:
    for node in ast.walk(ast.Module([ast.Expr(method.args), ast.Expr(method.returns)], [])):  # type: ignore[arg-type]
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            yield node.id


def _origins(tree: ast.Module, module: str) -> dict[str, str]:
    """Return where each name of a module comes from."""
    found: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(other), names=names):
                found |= {each.name: other for each in names}
            case ast.ClassDef(name=name):
                found[name] = module
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = module
    return found


if __name__ == "__main__":
    print(source(), end="")
