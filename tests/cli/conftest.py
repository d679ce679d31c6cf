"""Fixtures of commands: time that completions in the tests' own process have, and terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pylogbroker.cli import cluster_options
from tests.cli.pseudo_terminals import Terminal


@pytest.fixture(autouse=True)
def _patient_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers be slow: a completion of a second says nothing of what it finds."""
    monkeypatch.setattr(cluster_options, "_COMPLETION_SECONDS", 120.0)


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def opened(*arguments: str) -> Terminal:
        terminals.append(Terminal(*arguments))
        return terminals[-1]

    yield opened
    for terminal in terminals:
        terminal.close()
