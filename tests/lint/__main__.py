"""`python -m tests.lint [--list COUNT]`: print what the checks find, and end with 1 if that is anything.

Some findings are only counted: their numbers are in `pyproject.toml`, and may only fall. `--list` prints those of one.
"""

from __future__ import annotations

import gc
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from pylogbroker import features
from tests.lint import checks, late_imports, stages, wall_time
from tests.lint.checks import Finding
from tests.lint.glossary import Glossary
from tests.lint.texts import Kind, Name, PythonFile, Text, defined_names, markdown_texts, public_classes, python_texts

ROOT = Path(__file__).parents[2]
PACKAGES = ("pylogbroker", "pyspark_pylogbroker", "twisted")
PYTHON = (*PACKAGES, "tests", "benchmarks", "examples")
GLOSSARY = Path("docs/glossary.md")


def main(arguments: Sequence[str]) -> int:
    allowed: Mapping[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["text-lint"]
    findings, counted = run()
    listed = counted[arguments[1]] if arguments[:1] == ["--list"] else []
    for finding in sorted([*findings, *listed]):
        print(finding)
    has_risen = False
    for name, members in counted.items():
        if len(members) > allowed[name]:
            has_risen = True
            print(f"{name}: {len(members)}, allowed: {allowed[name]}. `python -m tests.lint --list {name}` shows them.")
        elif len(members) < allowed[name]:
            print(f"Set {name} in pyproject.toml to {len(members)}: there are fewer now than {allowed[name]}.")
    return 1 if findings or has_risen else 0


def run() -> tuple[list[Finding], dict[str, list[Finding]]]:
    """Return what must be changed, and by name what is only counted."""
    glossary = Glossary.read(ROOT / GLOSSARY)
    texts: list[Text] = []
    names: list[Name] = []
    classes: list[Name] = []
    of_coroutines: list[Finding] = []
    of_digits: list[Finding] = []
    of_plurals: list[Finding] = []
    of_reprs: list[Finding] = []
    of_tests: list[PythonFile] = []
    of_packages: list[PythonFile] = []
    for path in _files("*.py", PYTHON):
        file = PythonFile(path, (ROOT / path).read_text())
        texts += python_texts(file)
        names += defined_names(file)
        if path.parts[0] in PACKAGES:
            of_packages.append(file)
            classes += public_classes(file)
            of_coroutines += checks.dropped_coroutines(file)
            of_coroutines += checks.awaits_in_cleanup(file)
            of_digits += checks.digits_of_all_scripts(file)
            of_plurals += checks.fixed_plurals(file)
            of_reprs += checks.endless_reprs(file)
        elif path.parts[0] == wall_time.TESTS.name:
            of_tests.append(file)
    pages = [text for path in _pages() for text in markdown_texts(path, (ROOT / path).read_text())]
    findings = [
        *checks.bad_beginnings(texts),
        *checks.avoided_in_texts(chain(filter(_is_checked_for_terms, texts), pages), glossary.avoided),
        *checks.avoided_in_names(names, glossary.avoided),
        *checks.bad_test_names(names),
        *checks.repeated_classes(classes, glossary.repeated),
        *of_coroutines,
        *of_digits,
        *of_plurals,
        *of_reprs,
        *chain.from_iterable(map(stages.unstaged_classes, of_packages)),
        *late_imports.findings(of_packages, features.MODULES),
        *wall_time.findings(of_tests, wall_time.WallTime.read(ROOT / wall_time.LIST)),
    ]
    in_packages = (name for name in names if name.path.parts[0] in PACKAGES)
    counted = {
        "long_sentences": list(checks.long_sentences(texts)),
        "vague_names": list(checks.vague_names(in_packages)),
        "settings_by_name": [finding for file in of_packages for finding in checks.settings_by_name(file)],
        "late_attributes": [finding for file in of_packages for finding in stages.late_attributes(file)],
    }
    return findings, counted


def _is_checked_for_terms(text: Text) -> bool:
    """Strings of tests are data, and what other programs print."""
    return text.kind is not Kind.MESSAGE or text.path.parts[0] in PACKAGES


def _files(pattern: str, folders: Sequence[str]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob(pattern)):
            if not {"build", "__pycache__"} & set(path.parts):
                yield path.relative_to(ROOT)


def _pages() -> Iterator[Path]:
    pages = chain((path.relative_to(ROOT) for path in sorted(ROOT.glob("*.md"))), _files("*.md", ("docs", *PYTHON)))
    return (page for page in pages if page != GLOSSARY)


if __name__ == "__main__":
    gc.disable()  # syntax trees have no cycles, and millions of nodes that a collection would visit
    sys.exit(main(sys.argv[1:]))
