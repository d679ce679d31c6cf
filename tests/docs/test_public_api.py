"""docs/api.md names all public modules; pages and examples import nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.site import ROOT, public_names

_ROW = re.compile(r"^\| `(pylogbroker[a-z_.]*)` \|", re.MULTILINE)
MODULES = _ROW.findall((ROOT / "docs" / "api.md").read_text())
_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def module_path(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def sources() -> Iterator[tuple[str, str]]:
    """Yield the programs of pages and examples, with the names of their files."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("examples/*/*.md"))):
        for code in _FENCE.findall(page.read_text()):
            yield page.name, code
    for path in sorted(ROOT.glob("examples/**/*.py")):
        if "build" not in path.parts and not {".venv", "site-packages"} & set(path.parts):
            yield str(path.relative_to(ROOT)), path.read_text()


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield modules of this project that are imported, each with a name; incomplete programs have none."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pylogbroker":
            yield from ((node.module or "", name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names if name.name.partition(".")[0] == "pylogbroker")


def test_the_reference_has_the_same_modules() -> None:
    references = re.findall(r"reference/([a-z_.]+)\.md", (ROOT / "mkdocs.yml").read_text())
    assert {f"pylogbroker.{name}" for name in references} == {*MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_public_modules_list_their_names(module: str) -> None:
    tree = ast.parse(module_path(module).read_text())
    assert any("__all__" in ast.unparse(node).partition("=")[0] for node in tree.body if isinstance(node, ast.Assign))


def test_programs_import_public_names() -> None:
    public = {module: {*public_names(ast.parse(module_path(module).read_text()))} for module in MODULES}
    seen = [(where, module, name) for where, code in sources() for module, name in imported(code)]
    assert len(seen) > 40
    assert [use for use in seen if use[2] not in public.get(use[1], ())] == []
