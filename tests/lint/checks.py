"""Each check takes texts or names and returns its findings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import attrs

from tests.lint.glossary import AvoidedTerm
from tests.lint.texts import Kind, Name, PythonFile, Text, sentences

SENTENCE_WORDS_MAX = 30
_BAD_BEGINNING = re.compile(
    r"(The same|That of|It|What|Who|Whoever|Where|How|When|Whether|Of|By|In|As|For|From|With|Between|After|Then|Also"
    r"|Up to|None|Neither|Those)\b(?!-)"
)

_BAD_TEST_NAME = re.compile(r"test_(what|who|whoever|whatever|those|these|it|its|they|so|but|nor|and|then)(_|$)")


@attrs.frozen(order=True)
class Finding:
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def bad_beginnings(texts: Iterable[Text]) -> Iterator[Finding]:
    for text in texts:
        if text.kind is Kind.DOCSTRING and (found := _BAD_BEGINNING.match(text.content.strip())):
            yield Finding(
                text.path,
                text.line,
                f'the docstring begins with "{found[1]}": begin with a verb or a noun that stands alone',
            )


def bad_test_names(names: Iterable[Name]) -> Iterator[Finding]:
    for name in names:
        if found := _BAD_TEST_NAME.match(name.name):
            message = f'the name {name.name} begins with "{found[1]}": name what is tested, and what happens'
            yield Finding(name.path, name.line, message)


_VAGUE_NAMES = frozenset({"asked", "each", "found", "known", "wanted"})


def vague_names(names: Iterable[Name]) -> Iterator[Finding]:
    """Find names of variables that would fit any value."""
    for name in names:
        if name.name in _VAGUE_NAMES:
            yield Finding(name.path, name.line, f"the name {name.name} fits any value: name this one")


_DIGIT_TESTS = frozenset({"isdigit", "isdecimal", "isnumeric"})
_READERS_OF_DIGITS = Path("pylogbroker/java/text.py")


def digits_of_all_scripts(file: PythonFile) -> Iterator[Finding]:
    """Find tests for digits that take those of all scripts, and more than `int` reads."""
    for node in file.nodes if file.path != _READERS_OF_DIGITS else ():
        if isinstance(node, ast.Attribute) and node.attr in _DIGIT_TESTS:
            message = f"{node.attr} takes digits of all scripts: use pylogbroker.java.text.is_digits"
            yield Finding(file.path, node.lineno, message)


_READERS_BY_NAME = frozenset({"boolean", "integer", "number", "optional_text", "text", "texts"})


def settings_by_name(file: PythonFile) -> Iterator[Finding]:
    """Find settings that are read by a literal name, which type checkers cannot check."""
    for node in file.nodes:
        match node:
            case ast.Call(ast.Attribute(attr=reader), [ast.Constant(str(name))], []) if reader in _READERS_BY_NAME:
                message = f"{name} is read by its name: read the attribute, such as config.num_partitions"
                yield Finding(file.path, node.lineno, message)


_COMMAND = Path("pylogbroker/cli")
_PLURAL = re.compile(
    r" (batches|dead letters|files|groups|members|moves|offsets|partitions|problems|quotas|records|rows|segments"
    r"|settings|topics)\b(?!/)"
)


def fixed_plurals(file: PythonFile) -> Iterator[Finding]:
    """Find messages of the command with a number and a plural, which does not fit 1; constants are not 1."""
    for node in file.nodes if _COMMAND in file.path.parents else ():
        for number, text in pairwise(node.values) if isinstance(node, ast.JoinedStr) else ():
            match number, text:
                case ast.FormattedValue(ast.Name(name)), _ if name.isupper():
                    continue
                case ast.FormattedValue(), ast.Constant(str(content)) if found := _PLURAL.match(content):
                    message = f"{found[1]} does not fit the number 1: use pylogbroker.formatting.counted"
                    yield Finding(file.path, number.lineno, message)


def endless_reprs(file: PythonFile) -> Iterator[Finding]:
    """Find classes without equality whose repr attrs makes: it shows all that an object refers to.

    In a broker that is the whole of it, often over again: a failed assertion would take hours to say so.
    """
    for node in file.nodes:
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            match decorator:
                case ast.Call(ast.Attribute(ast.Name("attrs"), "define" | "frozen"), [], keywords):
                    given = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
                    if given.get("eq") == "False" and "repr" not in given:
                        message = f"the repr of {node.name} shows all that it refers to: add repr=False"
                        yield Finding(file.path, node.lineno, message)


def avoided_in_texts(texts: Iterable[Text], terms: Sequence[AvoidedTerm]) -> Iterator[Finding]:
    for text in texts:
        prose = text.prose
        for term in terms:
            if term.is_in_text(prose) and not term.is_free_in(text.path):
                message = f'the {text.kind.value} has the avoided term "{term.term}": write {term.instead}'
                yield Finding(text.path, text.line, message)


def avoided_in_names(names: Iterable[Name], terms: Sequence[AvoidedTerm]) -> Iterator[Finding]:
    terms_of = cache(lambda name: [term for term in terms if term.is_in_name(name)])  # most names are used often
    for name in names:
        for term in terms_of(name.name):
            if not term.is_free_in(name.path):
                message = f'the name {name.name} has the avoided term "{term.term}": write {term.instead}'
                yield Finding(name.path, name.line, message)


def repeated_classes(classes: Iterable[Name], reasons: Mapping[str, str]) -> Iterator[Finding]:
    """Find class names that are used twice without a reason, and reasons that are no longer needed."""
    places: dict[str, list[Name]] = defaultdict(list)
    for each in classes:
        places[each.name].append(each)
    for name, uses in sorted(places.items()):
        if len(uses) > 1 and name not in reasons:
            others = ", ".join(str(use.path) for use in uses[:-1])
            message = (
                f"the class name {name} is used in {others} too: rename one, or give the reason in docs/glossary.md"
            )
            yield Finding(uses[-1].path, uses[-1].line, message)
    for name in sorted(reasons):
        if len(places[name]) < 2:
            yield Finding(Path("docs/glossary.md"), 1, f"{name} is not used more than once: remove its row")


def long_sentences(texts: Iterable[Text]) -> Iterator[Finding]:
    for text in texts:
        if text.kind is Kind.DOCSTRING:
            for sentence in sentences(text.content):
                if (count := len(sentence.split())) > SENTENCE_WORDS_MAX:
                    yield Finding(text.path, text.line, f'a sentence of {count} words: "{sentence[:60]}..."')


def awaits_in_cleanup(file: PythonFile) -> Iterator[Finding]:
    """Find `finally` and `except BaseException` that await: in a collected coroutine, Python forbids it."""
    for node in file.nodes:
        if isinstance(node, ast.AsyncFunctionDef):
            for attempt in _own_nodes(node.body):
                if isinstance(attempt, ast.Try):
                    for found in filter(_awaits, _own_nodes(_cleanup_of(attempt))):
                        message = "a collected coroutine must not await: use pylogbroker.background.with_cleanup"
                        yield Finding(file.path, getattr(found, "lineno", node.lineno), message)


def _cleanup_of(attempt: ast.Try) -> Iterable[ast.AST]:
    yield from attempt.finalbody
    for handler in attempt.handlers:
        name = "BaseException" if handler.type is None else ast.unparse(handler.type)
        if name == "GeneratorExit":
            return  # the handlers behind it do not see it
        if "BaseException" in name:
            yield from handler.body


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes of a function's body, without those of functions in it."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _own_nodes(ast.iter_child_nodes(node))


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)


def dropped_coroutines(file: PythonFile) -> Iterator[Finding]:
    """Find statements that start a coroutine and drop its Deferred: nobody would see an error."""
    for node in file.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("ensureDeferred", "fromCoroutine"):
                message = f"the result of {name} is dropped: use pylogbroker.background.run_in_background"
                yield Finding(file.path, node.lineno, message)
