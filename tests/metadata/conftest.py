"""A coordination tree with its permanent nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.metadata import registration
from pylogbroker.tree.embedded import EmbeddedTree
from tests.tree.conftest import now


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[EmbeddedTree]:
    opened = EmbeddedTree.open(str(tmp_path / "tree"))
    now(registration.create_permanent_nodes(opened))
    yield opened
    now(opened.close())
