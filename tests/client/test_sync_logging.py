"""Log lines under `client.sync`: Python's `logging` gets them, and shows nothing unless the program asks for it."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from pylogbroker.client.sync.background import running
from pylogbroker.interfaces import Event
from pylogbroker.plugins.callback_handlers import logging_handler

LOGGER = "pylogbroker.plugins.callback_handlers"


@pytest.fixture(autouse=True)
def _reactor() -> None:
    running()


def test_a_logging_handler_writes_to_the_logger_of_its_module(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    handler = logging_handler.make("info", {})
    handler.after_enqueue(Event("orders", b"{odd} %s"), True)
    handler.after_enqueue(Event("orders", b"v"), False)
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (LOGGER, "INFO", "a record for orders is enqueued"),
        (LOGGER, "WARNING", "rejected a record for orders: the queue is full"),
    ]


def test_levels_that_are_off_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    logging_handler.make("info", {}).after_enqueue(Event("orders", b"v"), True)
    assert caplog.records == []


def test_a_failure_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError("gone")
    except LookupError:
        Logger("pylogbroker.client").failure("it failed", Failure(), LogLevel.error)
    [record] = caplog.records
    assert (record.name, record.levelname) == ("pylogbroker.client", "ERROR")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)


def test_lines_of_other_packages_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Logger("pylogbrokers").warn("not ours")
    Logger("twisted.web").warn("not ours")
    assert caplog.records == []


def test_a_program_that_does_not_configure_logging_sees_nothing() -> None:
    program = (
        "from pylogbroker.client.sync.background import running; from twisted.logger import Logger; "
        "running(); Logger('pylogbroker.client').warn('hidden')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
