"""Names of modules, functions and classes in the developers' pages exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pylogbroker"
PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs" / name for name in ("glossary.md", "tour.md", "formats.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"coordination\.(sqlite|lock|reserve|rebuild/)")  # a file of the broker, not a module


def names_in(path: Path) -> set[str]:
    """Classes, functions, methods and constants that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def is_module(folder: Path, parts: list[str]) -> bool:
    """True if `parts` is a module, a package, or a name that one of them defines."""
    for count in range(len(parts), 0, -1):
        path = folder.joinpath(*parts[:count])
        module = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if module.exists():
            return count == len(parts) or parts[count] in names_in(module)
    return False


def references(text: str) -> Iterator[tuple[str, Path, list[str]]]:
    """Spans like `storage.log.recovery`, `broker/apis/NAME.py` or `tests/torn` that begin with a package."""
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    for span in SPAN.findall(text):
        if not re.fullmatch(r"[\w./]+", span) or "NAME" in span or "__" in span or FILE.match(span):
            continue
        folder = PACKAGE
        if span.startswith(("tests/", "tests.", "benchmarks/", "examples/", "pylogbroker/", "pylogbroker.", "docs/")):
            folder = ROOT
        parts = re.sub(r"\.py$|/$", "", span).replace("/", ".").split(".")
        if folder == ROOT or (len(parts) > 1 and parts[0] in packages):
            yield span, folder, parts


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=lambda page: page.name)
def test_names_in_a_page_exist(page: Path) -> None:
    missing = [
        span
        for span, folder, parts in references(page.read_text())
        if not is_module(folder, parts) and not (folder / span).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").iterdir()), ids=lambda path: path.name)
def test_an_example_is_installed_into_an_environment_of_its_own(example: Path) -> None:
    """Another installation of the package in the checkout's environment would replace the checkout there."""
    if not example.is_dir() or example.name == "__pycache__":
        return
    installs = re.findall(r"^ +(\S*pip install .*)$", (example / "README.md").read_text(), re.MULTILINE)
    assert installs
    for command in installs:
        assert command.startswith(f"examples/{example.name}/.venv/bin/pip install ")
        assert not re.search(r"-e\b|--editable", command)


def test_the_tour_is_twelve_modules_for_one_afternoon() -> None:
    rows = re.findall(r"^\| \d+ \| `([^`]+)` \| ([^|]+) \|", (ROOT / "docs" / "tour.md").read_text(), re.MULTILINE)
    assert len(rows) == 12
    for path, wanted in rows:
        assert set(SPAN.findall(wanted)) <= names_in(ROOT / path), path
    assert 3200 < sum(len((ROOT / path).read_text().split("\n")) for path, _ in rows) < 3950


def test_references_are_distinguished_from_other_spans() -> None:
    text = "`storage.log.recovery` `make run` `errors` `tests/torn` `.kafka` `storage.nothing` `read_committed`"
    found = [(span, is_module(folder, parts)) for span, folder, parts in references(text)]
    assert found == [("storage.log.recovery", True), ("tests/torn", True), ("storage.nothing", False)]


PATH = re.compile(r"(?<![\w/])(?:docs|etc)/(?!pylogbroker/|systemd/|test_)[\w/.-]*\w")


def test_files_that_pages_and_modules_name_exist() -> None:
    texts = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*/*.md"),
        *ROOT.glob("etc/**/*"),
        *PACKAGE.glob("**/*.py"),
        *PACKAGE.glob("**/*.html"),
    ]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        if path.is_file()
        for name in PATH.findall(path.read_text())
        if not (ROOT / name).exists()
    }
    assert missing == set()
