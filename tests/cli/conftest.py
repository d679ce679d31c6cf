"""Time that completions in the tests' own process have: no shell waits for them."""

from __future__ import annotations

import pytest

from pylogbroker.cli import cluster_options


@pytest.fixture(autouse=True)
def _patient_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers be slow: a completion of a second says nothing of what it finds."""
    monkeypatch.setattr(cluster_options, "_COMPLETION_SECONDS", 120.0)
