"""Tables of docs/glossary.md that the checks read: avoided terms, and class names that are used more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import attrs

_SPAN = re.compile(r"`([^`]+)`")
_NAME_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_AVOIDED = "Avoided terms"
_REPEATED = "Class names used more than once"


class GlossaryError(Exception):
    """docs/glossary.md does not have the tables that the checks read."""


@attrs.frozen
class AvoidedTerm:
    """A word or phrase, and where it may be used after all.

    `allowed` has phrases and whole names; one with a slash is a path below which the term is free. The term itself in
    `allowed` is a name: texts still avoid it. A term with an underscore in front is avoided at the end of names only.
    """

    term: str
    instead: str
    allowed: Sequence[str] = ()

    def is_free_in(self, path: Path) -> bool:
        return any("/" in each and path.as_posix().startswith(each) for each in self.allowed)

    def is_in_text(self, prose: str) -> bool:
        if self.term.startswith("_") or self.term.lower() not in prose.lower():
            return False
        for phrase in self.allowed:
            if phrase.lower() == self.term.lower():
                continue
            prose = re.sub(rf"\b{re.escape(phrase)}\b", " ", prose, flags=re.IGNORECASE)
        return re.search(rf"\b{re.escape(self.term)}\b", prose, re.IGNORECASE) is not None

    def is_in_name(self, name: str) -> bool:
        if name in self.allowed:
            return False
        if self.term.startswith("_"):
            return name == self.term[1:] or name.endswith(self.term)
        return f" {self.term.lower()} " in _words(name)


@lru_cache(1)  # all terms are searched in a name, then in the next
def _words(name: str) -> str:
    return f" {' '.join(_NAME_WORDS.findall(name)).lower()} "


@attrs.frozen
class Glossary:
    avoided: Sequence[AvoidedTerm]
    repeated: Mapping[str, str]  # class name: reason

    @classmethod
    def read(cls, path: Path) -> Glossary:
        text = path.read_text()
        avoided = [
            AvoidedTerm(term, instead, _SPAN.findall(allowed))
            for terms, instead, allowed in _rows(text, _AVOIDED, 3)
            for term in _SPAN.findall(terms)
        ]
        repeated = {name: reason for names, reason in _rows(text, _REPEATED, 2) for name in _SPAN.findall(names)}
        if not avoided:
            raise GlossaryError(f"{path}: no table of avoided terms under the heading {_AVOIDED!r}")
        return cls(avoided, repeated)


def _rows(text: str, heading: str, columns: int) -> Iterator[Sequence[str]]:
    _, found, section = text.partition(f"## {heading}\n")
    if not found:
        raise GlossaryError(f"the glossary has no heading {heading!r}")
    table = [line for line in section.partition("\n## ")[0].split("\n") if line.startswith("|")]
    for line in table[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != columns:
            raise GlossaryError(f"a row under {heading!r} has {len(cells)} cells, expected {columns}: {line}")
        yield cells
