"""Runs each failed test once more, alone in a process of its own, with `--second-try`.

    failed once, then passed     unstable: listed at the end and in `unstable-tests.txt`; the run passes
    failed twice                 failed: so is the run
    more than UNSTABLE_MAX       the run fails; nothing is run again

A run of thousands of tests is not lost to one that depends on the machine's speed. An unstable test is a defect all the
same, to be mended before other work goes on. The second try has the run's options and seed, so that a choice which
finds a fault finds it again.

This module is a plugin of pytest. It is registered after `tests.support.run_services`, whose services end first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from tests.support import run_services

UNSTABLE_MAX = 10
SECONDS_MAX = 600  # of a second try; one that takes longer has failed
FILE = "unstable-tests.txt"

_KEY = pytest.StashKey["SecondTries"]()


@attrs.define
class SecondTries:
    """Failed tests of a run, and what became of them in the second try."""

    reports: dict[str, pytest.TestReport] = attrs.field(factory=dict)
    unstable: list[str] = attrs.field(factory=list)
    outputs: dict[str, str] = attrs.field(factory=dict)
    """Output of the second tries that failed, too."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first failure of a test, be it of a fixture."""
        if report.failed:
            self.reports.setdefault(report.nodeid, report)

    def run(self, config: pytest.Config) -> None:
        """Run the failed tests again, one after the other."""
        for test in self.reports:
            output = _output_of_failure(_command(config, test), config.rootpath)
            if output is None:
                self.unstable.append(test)
            else:
                self.outputs[test] = output


def _command(config: pytest.Config, test: str) -> list[str]:
    """Return the command that runs one test with the options of this run."""
    options = [argument for argument in config.invocation_params.args if str(argument) not in config.args]
    alone = ["--numprocesses", "0", "--dist", "no"] if config.pluginmanager.hasplugin("xdist") else []
    return [
        *(sys.executable, "-m", "pytest", test, *map(str, options), *alone),
        *("--seed", str(config.option.seed), "--no-second-try"),
    ]


def _output_of_failure(command: Sequence[str], directory: Path) -> str | None:
    """Return the output of a command that fails, or None if it succeeds."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"the second try did not end within {SECONDS_MAX} s"
    return done.stdout if done.returncode else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--second-try", action="store_true", help="run failed tests once more, each alone")
    parser.addoption("--no-second-try", action="store_false", dest="second_try", help="do not run failed tests again")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the reports in the run's first process, which gets those of all workers of xdist."""
    if config.option.second_try and not hasattr(config, "workerinput"):
        (config.rootpath / FILE).unlink(missing_ok=True)
        tries = config.stash[_KEY] = SecondTries()
        config.pluginmanager.register(tries)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Run the failed tests again, after the workers and the services of the run have ended."""
    config = session.config
    tries = config.stash.get(_KEY, None)
    if tries is None or session.exitstatus != pytest.ExitCode.TESTS_FAILED or len(tries.reports) > UNSTABLE_MAX:
        return
    tries.run(config)
    if not tries.unstable:
        return
    (config.rootpath / FILE).write_text("".join(f"{test}\n" for test in tries.unstable))
    _count_as_unstable(config, tries.unstable)
    if not tries.outputs and not run_services.has_errors(config):
        session.exitstatus = pytest.ExitCode.OK


def _count_as_unstable(config: pytest.Config, tests: Sequence[str]) -> None:
    """Count these tests as unstable, not as failed, in the last line of the run's output."""
    stats = config.pluginmanager.getplugin("terminalreporter").stats
    for outcome in ("failed", "error"):
        reports = stats.pop(outcome, [])
        remaining = [report for report in reports if report.nodeid not in tests]
        if remaining:
            stats[outcome] = remaining
        stats.setdefault("unstable", []).extend(report for report in reports if report.nodeid in tests)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the unstable tests, with how they failed, and how the others failed in the second try."""
    tries = config.stash.get(_KEY, None)
    if tries is None:
        return
    if len(tries.reports) > UNSTABLE_MAX:
        terminalreporter.write_line(f"{len(tries.reports)} tests failed, more than {UNSTABLE_MAX}: none was run again")
    for test, output in tries.outputs.items():
        terminalreporter.section(f"second try of {test}, which failed, too", red=True)
        terminalreporter.write(output)
    for test in tries.unstable:
        terminalreporter.section(f"first try of {test}, which passed in the second", yellow=True)
        tries.reports[test].toterminal(terminalreporter._tw)
    if tries.unstable:
        terminalreporter.section(f"unstable tests: mend them before other work ({FILE})", yellow=True)
        for test in tries.unstable:
            terminalreporter.write_line(test)
