"""Modules of the package do not import each other in a circle, not even for type checks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import pylogbroker
from tests.lint.import_graph import Graph, find_cycle, import_graph


def test_no_modules_import_each_other() -> None:
    graph = import_graph(Path(pylogbroker.__file__).parent)
    cycle = find_cycle(graph)
    assert not cycle, " imports ".join(cycle)


def graph_of(directory: Path, **sources: str) -> Graph:
    package = directory / "package"
    for name, source in {"__init__": "", "sub/__init__": "", **sources}.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return import_graph(package)


@pytest.mark.parametrize(
    "importing",
    [
        "import package.b",
        "from package import b",
        "from package.b import thing",
        "from . import b",
        "from .b import thing",
        "if TYPE_CHECKING:\n    from package.b import Thing",
        "def late():\n    from package import b",
    ],
)
def test_every_kind_of_import_is_seen(tmp_path: Path, importing: str) -> None:
    graph = graph_of(tmp_path, a=importing, b="import package.a")
    assert graph["package.a"] == {"package.b"}
    cycle = find_cycle(graph)
    assert cycle in (["package.a", "package.b", "package.a"], ["package.b", "package.a", "package.b"])


def test_relative_imports_of_a_package_start_there(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path, **{"sub/__init__": "from .c import x", "sub/c": "from .. import a\nfrom ..a import y"}, a=""
    )
    assert graph["package.sub"] == {"package.sub.c"}
    assert graph["package.sub.c"] == {"package.a"}
    assert find_cycle(graph) == []


def test_a_cycle_is_given_in_the_order_of_its_imports(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, a="import package.b", b="import package.c", c="import package.a")
    cycle = find_cycle(graph)
    assert len(cycle) == 4
    assert all(imported in graph[importer] for importer, imported in pairwise(cycle))


def test_the_name_of_a_package_stands_for_its_init(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, **{"sub/__init__": "from package.sub.c import x", "sub/c": "from package.sub import y"})
    assert find_cycle(graph)
