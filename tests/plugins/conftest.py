"""Fixtures of the tests of plugins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plugin_modules import Put, plugin_modules


@pytest.fixture
def put(tmp_path: Path) -> Iterator[Put]:
    """Puts modules of these names and contents where plugins are looked for."""
    with plugin_modules(tmp_path) as put:
        yield put
