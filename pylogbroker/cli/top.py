"""`pylogbroker top`.

A thread asks the cluster, so that keys are answered while a broker is not. The main thread has the terminal.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final

import attrs
import click

from pylogbroker.cli.cluster_options import Connection, address_options
from pylogbroker.cli.output import format_option, show
from pylogbroker.cli.top_figures import Figures, History, take_sample
from pylogbroker.cli.top_screen import VIEWS, Screen, printed
from pylogbroker.errors import ConfigError, KafkaError, PylogbrokerError

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin

_TERMINATED: Final = 128 + signal.SIGTERM
_SIZE_SECONDS: Final = 0.5  # between looks at the terminal's size
_KEYS_MAX: Final = 1024
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"


@click.command("top", short_help="Show topics, groups and brokers live: rates, lag, problems.")
@click.option(
    "--interval", type=click.FloatRange(0.1), default=2.0, show_default=True, metavar="SECONDS", help="Between samples."
)
@click.option("--view", type=click.Choice(VIEWS), default=VIEWS[0], show_default=True, help="What is shown first.")
@click.option("--once", is_flag=True, help="Print figures once, after two samples, and end.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for the answers of a sample.",
)
@address_options
@format_option
def command(interval: float, view: str, once: bool, timeout: float, connection: Connection, output: str) -> None:
    """Show topics, groups and brokers with rates, lag and problems, until q or Ctrl-C.

    Keys: t topics, g groups, b brokers, s sorts by the next column, / filters names, q ends.
    """
    connection.seconds = timeout
    screen = Screen(connection.bootstrap, view)
    if once:
        _print_once(connection, interval, screen, output)
        return
    if output != "table":
        raise click.UsageError(f"--format {output} needs --once")
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal: --once prints figures without one")
    with suppress(KeyboardInterrupt):
        _show_until_end(connection, interval, screen)


def _print_once(connection: Connection, interval: float, screen: Screen, output: str) -> None:
    history = History()
    with connection.admin() as admin:
        history.add(take_sample(admin, time.monotonic))
        time.sleep(interval)
        figures = history.add(take_sample(admin, time.monotonic))
        if not (figures["topics"] and figures["groups"]):
            connection.note_hidden(admin, "Topics and groups")
    if output != "table":
        show(figures, output)
        return
    width = shutil.get_terminal_size().columns
    lines = screen.lines(figures, time.strftime("%H:%M:%S"), width)
    for line in printed([lines[0], *lines[2:]], width, colors=sys.stdout.isatty()):
        click.echo(line.rstrip())


@attrs.frozen
class _Outcome:
    """Figures of the last sample that succeeded, and why later ones failed."""

    figures: Figures
    failure: str = ""


class _Sampler(threading.Thread):
    """Puts outcomes of samples into a queue until the process ends, last an error; `wake` is readable after each."""

    def __init__(self, connection: Connection, interval: float) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._interval = interval
        self.wake, self._woken = os.pipe()
        self.outcomes: SimpleQueue[_Outcome | BaseException] = SimpleQueue()

    def run(self) -> None:
        try:
            with self._connection.admin(grace=0, report=None) as admin:
                self._go_on(admin)
        except BaseException as error:
            self._put(error)  # raised by the main thread

    def _go_on(self, admin: BlockingAdmin) -> None:
        history = History()
        figures = history.add(take_sample(admin, time.monotonic))
        failure = since = ""
        while True:
            self._put(_Outcome(figures, failure))
            time.sleep(self._interval)
            try:
                figures = history.add(take_sample(admin, time.monotonic))
                failure = since = ""
            except (PylogbrokerError, OSError) as error:
                since = since or time.strftime("%H:%M:%S")
                failure = f"{self._connection.bootstrap} {_problem(error)} since {since}, trying again"

    def _put(self, outcome: _Outcome | BaseException) -> None:
        self.outcomes.put(outcome)
        os.write(self._woken, b"s")


def _problem(error: Exception) -> str:
    return f"answers {error.code.name}" if isinstance(error, KafkaError) else "does not answer"


def _show_until_end(connection: Connection, interval: float, screen: Screen) -> None:
    sampler = _Sampler(connection, interval)
    with _terminal():
        sampler.start()
        keyboard = sys.stdin.fileno()
        outcome = _Outcome({name: [] for name in VIEWS})
        shown = None
        while True:
            ready, _, _ = select.select([keyboard, sampler.wake], [], [], _SIZE_SECONDS)
            if sampler.wake in ready:
                os.read(sampler.wake, 1)
                latest = sampler.outcomes.get()
                if isinstance(latest, BaseException):
                    raise latest
                outcome = latest
            if keyboard in ready:
                keys = os.read(keyboard, _KEYS_MAX).decode(errors="ignore")
                if not keys or not all(screen.press(key) for key in keys):
                    return
            size = shutil.get_terminal_size()
            if ready or size != shown:
                shown = size
                screen.failure = outcome.failure
                _draw(screen, outcome.figures, size)


def _draw(screen: Screen, figures: Figures, size: os.terminal_size) -> None:
    lines = screen.lines(figures, time.strftime("%H:%M:%S"), size.columns)
    frame = printed(lines[: size.lines], size.columns, colors=True)
    sys.stdout.write(_HOME + "\r\n".join(line + _END_OF_LINE for line in frame) + _END_OF_SCREEN)
    sys.stdout.flush()


@contextmanager
def _terminal() -> Iterator[None]:
    """Read single keys, on a screen of its own; restore the terminal however the block ends."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    handler = signal.signal(signal.SIGTERM, _end)
    try:
        tty.setcbreak(keyboard)
        sys.stdout.write(_ENTER)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, handler)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(_TERMINATED)
