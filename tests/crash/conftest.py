"""Settings of all crash tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet_clients() -> Iterator[None]:
    """Clients log every connection that they lose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
