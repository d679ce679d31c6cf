"""Needs of tests are found from their code; a process that was not found fails its test."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import needs
from tests.support.process_guard import ProcessGuard, UnexpectedProcess

NEEDS = {"nothing": set(), "process": {"process"}, "kafka": {"process", "kafka"}, "oracle": {"oracle"}}


def collected(node: pytest.Collector) -> Iterator[pytest.Item]:
    for each in node.collect():
        if isinstance(each, pytest.Item):
            yield each
        else:
            assert isinstance(each, pytest.Collector)
            yield from collected(each)


def test_each_sample_has_the_needs_of_its_name(request: pytest.FixtureRequest) -> None:
    module = pytest.Module.from_parent(request.session, path=Path(__file__).with_name("needs_samples.py"))
    found = [(item.name, needs(item)) for item in collected(module)]
    assert found == [(name, NEEDS[re.split(r"[_[]", name)[1]]) for name, _ in found]
    assert len(found) == 19
    (recorded,) = (item for item in collected(module) if item.name == "test_oracle")
    assert needs(recorded, asks=True) == {"oracle", "process"}


class TestGuard:
    EVENT = ("subprocess.Popen", ("true", ["true"], None, None))

    def test_a_process_is_an_error(self) -> None:
        guard = ProcessGuard()
        with pytest.raises(UnexpectedProcess, match=r"test_it starts a process .*make quick"), guard.forbid("test_it"):
            guard.audit(*self.EVENT)

    def test_a_test_cannot_suppress_the_guard(self) -> None:
        guard = ProcessGuard()
        with pytest.raises(UnexpectedProcess), guard.forbid("test_it"), pytest.raises(UnexpectedProcess):
            guard.audit(*self.EVENT)

    def test_other_events_and_other_times_are_none(self) -> None:
        guard = ProcessGuard()
        with guard.forbid("test_it"):
            guard.audit("open", ("file", "r", 0))
            guard.audit("subprocess.Popen", ("/sbin/ldconfig", ["/sbin/ldconfig", "-p"], None, None))
        guard.audit(*self.EVENT)

    def test_pythons_events_arrive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        arrived = []
        monkeypatch.setattr(ProcessGuard, "audit", lambda _, event, arguments: arrived.append((event, arguments)))
        ProcessGuard().install()
        sys.audit("pylogbroker.tests", 1)
        assert ("pylogbroker.tests", (1,)) in arrived


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_processes_of_tests_obey_signals(number: signal.Signals) -> None:
    """Signals are obeyed even under nohup, and in a background job of a shell."""
    code = f"import signal; print(signal.getsignal({number.value}) is signal.SIG_IGN)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
