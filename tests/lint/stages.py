"""Attributes that are None until something happens: an object that is not ready should be of another type."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tests.lint.checks import Finding
from tests.lint.texts import PythonFile

_ATTRIBUTES_MAX = 2
"""Attributes that a class may have without types for its stages."""

_REASON = "# Stages without types: "
"""Comment in a class that says why its stages have no types of their own."""

_CREATION = ("__init__", "__attrs_post_init__")


def late_attributes(file: PythonFile) -> Iterator[Finding]:
    """Find attributes that are None when an object is made, and that another method sets."""
    for node in file.nodes:
        if isinstance(node, ast.ClassDef):
            for name, line in _late(node).items():
                yield Finding(file.path, line, f"{node.name}.{name} is None until a method sets it")


def unstaged_classes(file: PythonFile) -> Iterator[Finding]:
    """Find classes with more such attributes than are allowed, without a reason."""
    lines = file.source.splitlines()
    for node in file.nodes:
        if isinstance(node, ast.ClassDef) and len(names := _late(node)) > _ATTRIBUTES_MAX:
            own_lines = lines[node.lineno - 1 : node.end_lineno]
            if not any(line.strip().startswith(_REASON) for line in own_lines):
                message = f"{node.name} has stages without types: {', '.join(names)}: make types, or give the reason"
                yield Finding(file.path, node.lineno, message)


def _late(class_: ast.ClassDef) -> dict[str, int]:
    """Return the lines of attributes that begin as None and are set later."""
    functions = [each for each in class_.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    first: dict[str, int] = {}
    for statement in class_.body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and _is_none(statement.value)
        ):
            first[statement.target.id] = statement.lineno
    later: set[str] = set()
    for function in functions:
        for name, line, value in _assignments(function.body):
            if function.name not in _CREATION:
                later |= set() if _is_none(value) else {name}
            elif _is_none(value):
                first[name] = line
    return {name: line for name, line in first.items() if name in later}


def _assignments(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, int, ast.expr | None]]:
    """Yield each assignment to an attribute of `self`: its name, line, and value."""
    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.AnnAssign(target=target, value=value):
                    pairs = [(target, value)]
                case ast.Assign(targets=targets, value=value):
                    pairs = [pair for target in targets for pair in _pairs(target, value)]
                case _:
                    continue
            for target, value in pairs:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                ):
                    yield target.attr, node.lineno, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        yield from zip(target.elts, values, strict=True)
    else:
        yield target, value


def _is_none(value: ast.expr | None) -> bool:
    """Return whether a value is None, or a field of attrs that begins as None."""
    match value:
        case ast.Constant(None):
            return True
        case ast.Call(keywords=keywords):
            return any(each.arg == "default" and _is_none(each.value) for each in keywords)
    return False
