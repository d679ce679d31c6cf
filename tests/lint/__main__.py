"""`python -m tests.lint [--long]`: print what the checks find, and end with 1 if that is anything.

`--long` lists the sentences with more than 30 words as well.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tests.lint import checks
from tests.lint.checks import Finding
from tests.lint.glossary import Glossary
from tests.lint.texts import Kind, Name, PythonFile, Text, defined_names, markdown_texts, public_classes, python_texts

ROOT = Path(__file__).parents[2]
PACKAGES = ("pylogbroker", "pyspark_pylogbroker", "twisted")
PYTHON = (*PACKAGES, "tests", "benchmarks", "examples")
GLOSSARY = Path("docs/glossary.md")


def main(arguments: Sequence[str]) -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["text-lint"]
    findings, long = run()
    for finding in sorted(chain(findings, long if "--long" in arguments else ())):
        print(finding)
    allowed = settings["long_sentences"]
    if len(long) > allowed:
        print(
            f"{len(long)} sentences of docstrings have more than {checks.SENTENCE_WORDS_MAX} words, allowed: {allowed}."
        )
        print("Split the new ones: `python -m tests.lint --long` lists all.")
    elif len(long) < allowed:
        print(f"Set long_sentences in pyproject.toml to {len(long)}: there are fewer now than {allowed}.")
    return 1 if findings or len(long) > allowed else 0


def run() -> tuple[list[Finding], list[Finding]]:
    """Return what must be changed, and the long sentences."""
    glossary = Glossary.read(ROOT / GLOSSARY)
    texts: list[Text] = []
    names: list[Name] = []
    classes: list[Name] = []
    of_coroutines: list[Finding] = []
    of_digits: list[Finding] = []
    for path in _files("*.py", PYTHON):
        file = PythonFile(path, (ROOT / path).read_text())
        texts += python_texts(file)
        names += defined_names(file)
        if path.parts[0] in PACKAGES:
            classes += public_classes(file)
            of_coroutines += checks.dropped_coroutines(file)
            of_coroutines += checks.awaits_in_cleanup(file)
            of_digits += checks.digits_of_all_scripts(file)
    pages = [text for path in _pages() for text in markdown_texts(path, (ROOT / path).read_text())]
    findings = [
        *checks.bad_beginnings(texts),
        *checks.avoided_in_texts(chain(filter(_is_checked_for_terms, texts), pages), glossary.avoided),
        *checks.avoided_in_names(names, glossary.avoided),
        *checks.bad_test_names(names),
        *checks.repeated_classes(classes, glossary.repeated),
        *of_coroutines,
        *of_digits,
    ]
    return findings, list(checks.long_sentences(texts))


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
    sys.exit(main(sys.argv[1:]))
