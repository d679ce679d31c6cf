"""Code samples in docstrings: each compiles, and what it imports from this project exists.

An indented block of a docstring is a sample if its first line is a statement; other blocks are tables and layouts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from tests.docs.site import ROOT

_TEXT = re.compile(r'"""(.*?)"""', re.DOTALL)
_BLOCK = re.compile(r"(?:^ {4}.*\n|^ *\n(?= {4}))+", re.MULTILINE)
_STATEMENT = re.compile(
    r"(from|import|def|class|for|with|async (def|for|with)|while|if|return|await) .+|@\w+.*"
    r"|[\w.()]+(, [\w.()]+)* = [\w.]+[(\[].*"
    r"|\w+(\.\w+)+\(.*\).*"
)
_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
_OF_TABLES = frozenset({"wire/decoder_compiler.py", "wire/encoder_compiler.py"})
"""Modules whose samples are generated code that is cut short."""


def samples(source: str) -> Iterator[str]:
    """Yield the samples; most modules have none, and are not parsed."""
    lines = (line.strip() for text in _TEXT.findall(source) for line in text.split("\n"))
    if not any(map(_STATEMENT.fullmatch, lines)):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (docstring := ast.get_docstring(node, clean=False)) is None:
                continue
            margin = " " * node.body[0].col_offset
            for block in _BLOCK.findall(re.sub(f"^{margin}", "", f"{docstring}\n", flags=re.MULTILINE)):
                sample = dedent(block).strip("\n") + "\n"
                if _STATEMENT.fullmatch(sample.partition("\n")[0]):
                    yield sample


@cache
def modules() -> list[str]:
    package = ROOT / "pylogbroker"
    paths = (path for path in sorted(package.rglob("*.py")) if any(samples(path.read_text())))
    return [str(path.relative_to(package)) for path in paths]


def _has(module: ModuleType, name: str) -> bool:
    """Return whether a module has a member, or a package a module, that need not be imported yet."""
    return hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}") is not None)


@pytest.mark.parametrize("path", sorted({*modules()} - _OF_TABLES))
def test_samples_compile(path: str) -> None:
    for sample in samples(Path(ROOT / "pylogbroker" / path).read_text()):
        tree = compile(sample, path, "exec", _FLAGS)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pylogbroker"):
                module = import_module(node.module or "")
                missing = [name.name for name in node.names if not _has(module, name.name)]
                assert missing == [], f"{path}: {node.module} has no {missing}"


def test_most_samples_are_known() -> None:
    assert len(modules()) > 25


def test_tables_are_no_samples() -> None:
    docstring = '"""Head.\n\n    state  event\n    -----  -----\n    OPEN   close\n\n    client.close(now)\n"""'
    assert list(samples(docstring)) == []
    assert list(samples('"""Head.\n\n    client.close()\n    a\n"""')) == ["client.close()\na\n"]
