"""Ctrl-C on a terminal: what was done is said, the terminal is as it was, and the status is the documented one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from tests.cli.pseudo_terminals import Terminal
from tests.support.brokers import Broker

CTRL_C = "\x03"
CTRL_D = "\x04"
SHOWN_CURSOR = "\x1b[?25h"


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic with one record."""
    done = CliRunner().invoke(main, ["produce", topic, "--create", "-b", broker.bootstrap], input="first\n")
    assert done.exit_code == 0
    return topic


@pytest.mark.parametrize(("key", "status"), [(CTRL_C, 130), (CTRL_D, 0)])
def test_produce_says_how_many_records_it_wrote(
    broker: Broker, filled: str, open_terminal: Callable[..., Terminal], key: str, status: int
) -> None:
    terminal = open_terminal("produce", filled, "-b", broker.bootstrap)
    terminal.type("second\n")
    check = CliRunner().invoke(main, ["consume", filled, "-n", "2", "-b", broker.bootstrap])
    assert check.stdout == "first\nsecond\n"
    terminal.type(key)
    terminal.check_restored(f"Wrote 1 record to {filled}.")
    assert terminal.process.returncode == status


@pytest.mark.parametrize("arguments", [(), ("-g", "readers-on-a-terminal")])
def test_consume_ends_as_a_shell_expects(
    broker: Broker, filled: str, open_terminal: Callable[..., Terminal], arguments: tuple[str, ...]
) -> None:
    terminal = open_terminal("consume", filled, *arguments, "-b", broker.bootstrap)
    terminal.expect("first")
    terminal.type(CTRL_C)
    terminal.check_restored("^C")
    assert terminal.process.returncode == 130


@pytest.mark.parametrize("arguments", [("topic", "list"), ("group", "list", "--lag")])
def test_watched_lists_end_well(
    broker: Broker, filled: str, open_terminal: Callable[..., Terminal], arguments: tuple[str, ...]
) -> None:
    terminal = open_terminal(*arguments, "--watch", "0.1", "-b", broker.bootstrap)
    terminal.expect(arguments[0])
    terminal.type(CTRL_C)
    terminal.check_restored("^C")
    assert terminal.process.returncode == 0


def test_sql_shows_its_progress_until_the_table_is_there(
    broker: Broker, filled: str, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal("sql", f'SELECT count(*) AS n FROM "{filled}"', "-b", broker.bootstrap)
    terminal.expect("1 of 1 records")
    terminal.expect(SHOWN_CURSOR)
    terminal.check_restored("1\r\n")
    assert terminal.process.returncode == 0


def test_sql_that_follows_ends_well(broker: Broker, filled: str, open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("sql", "SELECT 41 + 1 AS n", "--follow", "0.1", "-b", broker.bootstrap)
    terminal.expect("42")
    terminal.expect("42")
    terminal.type(CTRL_C)
    terminal.check_restored("^C")
    assert terminal.process.returncode == 0


def test_a_query_of_sql_ends_at_once(broker: Broker, filled: str, open_terminal: Callable[..., Terminal]) -> None:
    numbers = "range(1000000000)"
    query = f'SELECT sum(a.range * b.range + length(value)) FROM {numbers} a, {numbers} b, "{filled}"'
    terminal = open_terminal("sql", query, "-b", broker.bootstrap)
    terminal.expect("1 of 1 records")
    terminal.type(CTRL_C)
    terminal.check_restored("Interrupted.")
    assert terminal.process.returncode == 130
