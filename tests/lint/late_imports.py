"""Imports that run late: in functions, by name, and on first use.

`pylogbroker.features` has tables of what is imported on first use. A module that uses a row names it twice: for type
checkers, and for Python. These checks compare both, and find late imports elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.lint.checks import Finding
from tests.lint.texts import PythonFile

_REACTOR: Final = "importing a reactor installs it: a program, or twistd, may still choose another one"

IN_FUNCTIONS: Final[Mapping[Path, str]] = {
    Path("pylogbroker/client/arguments.py"): _REACTOR,
    Path("pylogbroker/tap/brokers/service.py"): _REACTOR,
    Path("pylogbroker/tap/twistd.py"): _REACTOR,
    Path("pylogbroker/testing/__main__.py"): _REACTOR,
}
"""Modules with imports in functions, and why."""

BY_NAME: Final[Mapping[Path, str]] = {
    Path("pylogbroker/broker/apis/__init__.py"): "the seam of APIs: handlers",
    Path("pylogbroker/wire/messages/__init__.py"): "the seam of APIs: messages",
    Path("pylogbroker/features.py"): "the seam of features",
    Path("pylogbroker/lazy_names.py"): "public names of a package",
    Path("pylogbroker/cli/__init__.py"): "commands, by the names that users give",
    Path("pylogbroker/cli/load.py"): "a function that the user names",
    Path("pylogbroker/discovery.py"): "plugins",
    Path("pylogbroker/tap/preload.py"): "features and handlers, for a process that loses sight of files",
    Path("pylogbroker/tap/brokers/fork_server.py"): "what brokers share with the process that forks them",
    Path("pylogbroker/tree/zookeeper.py"): "kazoo would not say which package is missing",
}
"""Modules that import others by name, and why."""

_ON_FIRST_USE: Final = "on_first_use"


def findings(files: Collection[PythonFile], features: Iterable[str]) -> Iterator[Finding]:
    """Find late imports outside of the seams, and rows and exceptions that nobody needs."""
    used: set[str] = set()
    in_functions: set[Path] = set()
    by_name: set[Path] = set()
    for file in files:
        for line in _imports_in_functions(file):
            in_functions.add(file.path)
            if file.path not in IN_FUNCTIONS:
                yield Finding(file.path, line, "an import in a function: see pylogbroker.features")
        for node in file.nodes:
            if _calls(node, "import_module", "__import__"):
                by_name.add(file.path)
                if file.path not in BY_NAME:
                    yield Finding(file.path, node.lineno, "an import by name: use pylogbroker.features")
        yield from _unpaired(file, used)
    for exceptions, needed in ((IN_FUNCTIONS, in_functions), (BY_NAME, by_name)):
        for path in sorted(exceptions.keys() - needed):
            yield Finding(path, 1, "imports nothing late: remove it from tests/lint/late_imports.py")
    for module in sorted(set(features) - used):
        yield Finding(Path("pylogbroker/features.py"), 1, f"{module} is not imported on first use: remove its row")


def _imports_in_functions(file: PythonFile) -> Iterator[int]:
    functions = (node for node in file.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    inner = (node for function in functions for node in ast.walk(function))
    yield from sorted({node.lineno for node in inner if isinstance(node, ast.Import | ast.ImportFrom)})


def _unpaired(file: PythonFile, used: set[str]) -> Iterator[Finding]:
    """Find late modules that type checkers know by another name, or do not know; add the modules to `used`."""
    paired = set()
    for node in file.tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            checked = {imported for statement in node.body for imported in _imported(statement)}
            for assignment in node.orelse:
                match assignment:
                    case ast.Assign([ast.Name(name)], ast.Call(ast.Name(), [ast.Constant(str(module))]) as call):
                        paired.add(call)
                        used.add(module)
                        if (name, module) not in checked:
                            message = f"{name} is {module} for Python: import it under TYPE_CHECKING as that"
                            yield Finding(file.path, assignment.lineno, message)
    for node in file.nodes:
        if _calls(node, _ON_FIRST_USE) and node not in paired:
            yield Finding(file.path, node.lineno, f"{_ON_FIRST_USE} stands behind `if TYPE_CHECKING: ... else:` alone")


def _imported(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, and its module or member."""
    if isinstance(statement, ast.Import):
        yield from ((alias.asname or alias.name, alias.name) for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from ((alias.asname or alias.name, f"{statement.module}.{alias.name}") for alias in statement.names)


def _calls(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
