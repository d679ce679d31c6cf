"""Pages that show a record with an old timestamp say that retention deletes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.page_programs import ROOT, programs

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OLD_TIMESTAMP: Final = re.compile(r"timestamp(_ms)?=1[_\d]{12,}")
NOTE: Final = "Retention goes by timestamps."


def shows_an_old_timestamp(text: str) -> bool:
    return OLD_TIMESTAMP.search(text) is not None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_with_an_old_timestamp_names_retention(path: Path) -> None:
    if any(shows_an_old_timestamp(program.text) for program in programs(path)):
        assert NOTE in path.read_text()


def test_a_page_with_an_old_timestamp_is_found() -> None:
    found = [path.name for path in PAGES if any(shows_an_old_timestamp(each.text) for each in programs(path))]
    assert "producer.md" in found
