"""Docstrings, comments, messages and names of Python files, and paragraphs of Markdown files, each with its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path

import attrs

_CODE_SPAN = re.compile(r"``[^`]+``|`[^`\n]*`")
_FENCE = re.compile(r" *(```|~~~)")
_CODE_OR_TABLE = re.compile(r"  |```|\||\+|>>>|.*[^\s.!?]  +\S")  # a row of a table has wide gaps between its columns
_STRING_OR_COMMENT = re.compile(
    r"""
    \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3} | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | \#(?P<comment>[^\n]*)
    """,
    re.VERBOSE | re.DOTALL,
)


class Kind(Enum):
    DOCSTRING = "docstring"
    COMMENT = "comment"
    MESSAGE = "message"
    PARAGRAPH = "paragraph"


@attrs.frozen
class Text:
    """One docstring, comment, message or paragraph, and where it begins."""

    path: Path
    line: int
    kind: Kind
    content: str

    @property
    def prose(self) -> str:
        """The content without code spans, on one line."""
        return " ".join(_CODE_SPAN.sub(" ", self.content).split())


@attrs.frozen
class Name:
    """A name at the place that defines it."""

    path: Path
    line: int
    name: str


@attrs.define(slots=False)
class PythonFile:
    path: Path
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """The nodes from the outside in, as `ast.walk` yields them, which takes twice as long; without contexts."""
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for value in vars(node).values():
                if type(value) is list:
                    nodes += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    nodes.append(value)
        return nodes


def python_texts(file: PythonFile) -> Iterator[Text]:
    """Docstrings, comments and messages. A message is any other string with a space in it."""
    docstrings = {id(constant) for constant in map(_docstring_of, file.nodes) if constant is not None}
    for node in file.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                yield Text(file.path, node.lineno, Kind.DOCSTRING, node.value)
            elif " " in node.value.strip():
                yield Text(file.path, node.lineno, Kind.MESSAGE, node.value)
    yield from _comments(file)


def _comments(file: PythonFile) -> Iterator[Text]:
    """Search with a regular expression: the module `tokenize` takes as long as all other checks."""
    line = counted = 0
    for found in _STRING_OR_COMMENT.finditer(file.source):
        if (comment := found["comment"]) is not None:
            line += file.source.count("\n", counted, found.start())
            counted = found.start()
            yield Text(file.path, line + 1, Kind.COMMENT, comment.lstrip("#").strip())


def _docstring_of(node: ast.AST) -> ast.Constant | None:
    match node:
        case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            match node.body:
                case [ast.Expr(ast.Constant(str()) as constant), *_]:
                    return constant
    return None


def defined_names(file: PythonFile) -> Iterator[Name]:
    """Names of the module, its classes, functions, parameters, variables and attributes of `self`."""
    path = file.path
    yield Name(path, 1, path.parent.name if path.stem == "__init__" else path.stem)
    for node in file.nodes:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Name(path, node.lineno, node.name)
        elif isinstance(node, ast.arg):
            yield Name(path, node.lineno, node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Name(path, node.lineno, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield Name(path, node.lineno, node.attr)


def public_classes(file: PythonFile) -> Iterator[Name]:
    """Classes at the top of a module whose names have no underscore in front."""
    for node in file.tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield Name(file.path, node.lineno, node.name)


def markdown_texts(path: Path, source: str) -> Iterator[Text]:
    """Paragraphs, list items and table rows; code blocks are left out."""
    paragraph: list[str] = []
    begin, in_code = 1, False
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if _FENCE.match(line):
            in_code = not in_code
        is_code = in_code or _FENCE.match(line) or (line.startswith("    ") and not paragraph)
        starts_new = is_code or not line.strip() or re.match(r" *([-*|#]|\d+\.) ?", line)
        if starts_new and paragraph:
            yield Text(path, begin, Kind.PARAGRAPH, "\n".join(paragraph))
            paragraph = []
        if line.strip() and not is_code:
            if not paragraph:
                begin = number
            paragraph.append(line)


def sentences(docstring: str) -> Iterator[str]:
    """Sentences of a docstring's prose. Code, tables and byte layouts are left out."""
    lines = docstring.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    blocks: list[list[str]] = [[]]
    for line in [lines[0], *(line[margin:] for line in lines[1:])]:
        if not line.strip() or _CODE_OR_TABLE.match(line):
            blocks.append([])
        elif re.match(r"([-*]|\d+\.) ", line):
            blocks.append([line])
        else:
            blocks[-1].append(line)
    for block in blocks:
        text = re.sub(r"\b(e\.g|i\.e|etc|vs|cf)\.", r"\1", " ".join(block))
        for sentence in re.split(r"(?<=[.!?])\s+", text):
            if sentence.strip():
                yield sentence.strip()
