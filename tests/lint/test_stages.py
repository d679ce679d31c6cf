"""Attributes that are None until something happens are found, and classes that have many."""

from __future__ import annotations

from pathlib import Path

from tests.lint import stages
from tests.lint.texts import PythonFile

SERVICE = """
class Service:
    _name: str | None = None
    _port: Port | None = attrs.field(default=None, init=False)

    def __init__(self):
        self._timer = None
        self.first, self._count = None, 0

    def start(self):
        self._port = listen()
        self._timer: Call = later()
        self.first, _ = read()
        self._count = 1

    def stop(self):
        self._name = None
"""


def file(source: str) -> PythonFile:
    return PythonFile(Path("module.py"), source)


def test_attributes_that_are_set_later_are_found() -> None:
    findings = {finding.message.split()[0]: finding.line for finding in stages.late_attributes(file(SERVICE))}
    assert findings == {"Service._port": 4, "Service._timer": 7, "Service.first": 8}


def test_a_class_with_many_of_them_is_found() -> None:
    [finding] = stages.unstaged_classes(file(SERVICE))
    assert (finding.line, finding.message.split(":")[1]) == (2, " _port, _timer, first")
    two = SERVICE.replace("self._port = listen()", "listen()")
    assert list(stages.unstaged_classes(file(two))) == []


def test_a_class_may_have_them_for_a_reason() -> None:
    reason = SERVICE.replace("class Service:\n", "class Service:\n    # Stages without types: it starts again\n")
    assert list(stages.unstaged_classes(file(reason))) == []
