"""Imports between the modules of a package, read from the sources, also under TYPE_CHECKING and in functions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Graph = dict[str, set[str]]


def import_graph(package: Path) -> Graph:
    """Return which modules each module of the package imports; a package's name stands for its `__init__`."""
    sources = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    return {name: {*_imports(name, path, sources)} - {name} for name, path in sources.items()}


def find_cycle(graph: Graph) -> list[str]:
    """Return modules that import each other, each the next one, back to the first; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]  # the sorter goes from a module to those that import it
    return []


def components(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that reach each other, a single module if it reaches none back; imported ones first.

    Tarjan's algorithm.
    """
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in sorted(graph[module]):
            if imported not in number:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            place = stack.index(module)
            found.append(stack[place:])
            del stack[place:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(importer: str, path: Path, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, importer, path.name == "__init__.py")
            for alias in node.names:
                imported = f"{base}.{alias.name}"
                yield from (name for name in (imported if imported in modules else base,) if name in modules)


def _base(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    """Return the absolute name of the module behind `from`."""
    if not node.level:
        return node.module or ""
    parents = importer.split(".")
    package = parents[: len(parents) - node.level + is_package]
    return ".".join([*package, node.module] if node.module else package)
