"""Answers of Kafka's programs that do not depend on time, recorded in `tests/oracle_answers`.

A test that needs such an answer asks through the fixture `oracle`:

    answer = oracle.answer("partitions", question, lambda: program.run(input=question).stdout)

Without options the answer comes from the file, and neither Java nor Kafka is needed. `--ask` (`make oracle`) asks the
program as well and fails if the file is out of date; `--record` writes the file. An answer belongs to its question:
when the question changes, because this project writes other bytes, the answer has to be recorded again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

DIRECTORY = Path(__file__).parents[1] / "oracle_answers"


class OutOfDate(AssertionError):
    """The recorded answer is not what the oracle says to this question."""


@attrs.frozen
class OracleAnswers:
    """Gives recorded answers, or asks for them."""

    asks: bool = False
    records: bool = False
    directory: Path = DIRECTORY

    def answer(self, name: str, question: str | bytes, ask: Callable[[], Any]) -> Any:
        """Return the answer to `question`, of values that JSON has; `ask` gets it from the oracle."""
        if self.records:
            self._record(name, question, ask())
        recorded = self._recorded(name, question)
        if self.asks and not self.records and (answer := json.loads(json.dumps(ask()))) != recorded:
            raise OutOfDate(f"the oracle's answer differs from {self._path(name)}: {answer!r}; {_remedy()}")
        return recorded

    def sample(self, name: str, question: str | bytes, ask: Callable[[], Any]) -> Any:
        """Return an answer that is never the same twice, because it has times in it: a fresh one if there may be."""
        if self.asks and not self.records:
            return ask()
        return self.answer(name, question, ask)

    def dump_of(self, name: str, directory: Path, *options: str, is_sample: bool = False) -> str:
        """Return what `kafka-dump-log` prints about all files of a directory; their contents are the question."""
        paths = sorted(directory.glob("0*"))
        contents = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths]
        find = self.sample if is_sample else self.answer
        said: str = find(name, "\n".join([*options, *contents]), lambda: _dump(directory, paths, options))
        return said

    def _record(self, name: str, question: str | bytes, answer: Any) -> None:
        text = json.dumps({"question": _digest(question), "answer": answer}, indent=1, ensure_ascii=False)
        self._path(name).write_text(text + "\n")

    def _recorded(self, name: str, question: str | bytes) -> Any:
        path = self._path(name)
        recorded = json.loads(path.read_text()) if path.exists() else {}
        if recorded.get("question") != _digest(question):
            raise OutOfDate(f"{path} does not answer the question that the test asks now; {_remedy()}")
        return recorded["answer"]

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _remedy() -> str:
    """Return what to do about the answers of the test that runs."""
    test_file = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0].removeprefix("tests/")
    command = f"make oracle PACKAGE={test_file} ARGS=--record"
    return f"run `{command}`, look at what has changed, and commit tests/oracle_answers"


def _digest(question: str | bytes) -> str:
    return hashlib.sha256(question.encode() if isinstance(question, str) else question).hexdigest()


def _dump(directory: Path, paths: list[Path], options: tuple[str, ...]) -> str:
    from tests.peers.tools import tool

    said = tool("kafka-dump-log", *options, "--files", ",".join(map(str, paths))).stdout
    return said.replace(f"{directory}/", "")
