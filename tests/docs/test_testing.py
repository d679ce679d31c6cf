"""The page about testing: every program on it runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

from tests.docs.page_programs import ROOT, programs


def test_programs_of_the_page(tmp_path: Path) -> None:
    page = ROOT / "docs" / "testing.md"
    found = programs(page)
    assert len(found) == page.read_text().count("```python") > 0
    for program in found:
        assert program.run("", tmp_path) == (program.output or ""), program.text
