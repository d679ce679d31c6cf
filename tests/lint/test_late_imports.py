"""The checks of late imports, each on a few lines of its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint import late_imports
from tests.lint.__main__ import ROOT
from tests.lint.texts import PythonFile

PAIR = """
if TYPE_CHECKING:
    from pylogbroker.offline import {imported}
else:
    {bound} = on_first_use("pylogbroker.offline.backup")
"""


def messages(source: str, *rows: str, path: str = "pylogbroker/module.py") -> list[str]:
    """Return what is found in one module; exceptions of other modules are not needed then."""
    found = late_imports.findings([PythonFile(Path(path), source)], rows)
    return [finding.message for finding in found if "tests/lint/late_imports.py" not in finding.message]


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import json",
        "async def f():\n    from a import b",
        "class C:\n    def m(self):\n        with x:\n            import json",
    ],
)
def test_an_import_in_a_function_is_found(source: str) -> None:
    [message] = messages(source)
    assert message.startswith("an import in a function")


def test_imports_at_the_top_and_under_type_checking_are_free() -> None:
    assert messages("import json\nif TYPE_CHECKING:\n    from a import b\nclass C:\n    from a import b") == []


def test_a_module_with_a_reason_may_import_in_functions() -> None:
    assert messages("def f():\n    from twisted.internet import reactor", path="pylogbroker/tap/twistd.py") == []


def test_an_import_by_name_is_found() -> None:
    assert messages('import_module("json")') == ["an import by name: use pylogbroker.features"]


@pytest.mark.parametrize(("imported", "bound"), [("backup", "backup"), ("backup as copies", "copies")])
def test_a_late_module_has_the_same_name_for_type_checkers(imported: str, bound: str) -> None:
    source = PAIR.format(imported=imported, bound=bound)
    assert messages(source, "pylogbroker.offline.backup") == []


@pytest.mark.parametrize(("imported", "bound"), [("restore", "backup"), ("backup", "copies")])
def test_a_late_module_with_another_name_is_found(imported: str, bound: str) -> None:
    source = PAIR.format(imported=imported, bound=bound)
    assert messages(source, "pylogbroker.offline.backup") == [
        f"{bound} is pylogbroker.offline.backup for Python: import it under TYPE_CHECKING as that"
    ]


def test_a_late_module_that_type_checkers_do_not_see_is_found() -> None:
    [message] = messages('backup = on_first_use("pylogbroker.offline.backup")')
    assert message.startswith("on_first_use stands behind")


def test_a_row_that_nobody_uses_is_found() -> None:
    assert messages("", "pylogbroker.offline.backup") == [
        "pylogbroker.offline.backup is not imported on first use: remove its row"
    ]


def test_an_exception_that_nobody_needs_is_found() -> None:
    needless = {finding.path for finding in late_imports.findings([], ())}
    assert needless == {*late_imports.IN_FUNCTIONS, *late_imports.BY_NAME}


def _used_names() -> set[tuple[str, str, str]]:
    """Return each file with a late module, that module, and a name that is used of it."""
    used = set()
    for path in sorted((ROOT / "pylogbroker").rglob("*.py")):
        file = PythonFile(path, path.read_text())
        late = {}
        for node in file.nodes:
            match node:
                case ast.Assign([ast.Name(name)], ast.Call(ast.Name("on_first_use"), [ast.Constant(str(module))])):
                    late[name] = module
        for node in file.nodes:
            match node:
                case ast.Attribute(ast.Name(name), attribute) if name in late:
                    used.add((str(path.relative_to(ROOT)), late[name], attribute))
    return used


_PRINT_MISSING = """
import json, sys
from importlib import import_module
for path, module, name in json.loads(sys.argv[1]):
    if not hasattr(import_module(module), name):
        print(path, module, name)
"""


def test_names_that_are_used_of_late_modules_exist() -> None:
    """Type checkers know nothing of modules without types, and the import shows no error."""
    used = _used_names()
    assert ("pylogbroker/records/checksum.py", "crcmod.predefined", "mkCrcFun") in used
    missing = subprocess.run(
        [sys.executable, "-c", _PRINT_MISSING, json.dumps(sorted(used))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert missing.stdout.splitlines() == []
