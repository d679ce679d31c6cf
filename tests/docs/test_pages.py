"""The pages for writers, readers and administrators: every program on them runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_programs import ROOT, Program, programs
from tests.support.broker_process import BrokerProcess

PAGES = ("producer.md", "consumer.md", "admin.md", "mirror-groups.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text()
    found = programs(ROOT / "docs" / page)
    assert len(found) == text.count("```python")
    assert sum(program.output is not None for program in found) == text.count("```text")
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        for program in found:
            assert program.run(broker.bootstrap, tmp_path) == (program.output or ""), program.text
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []


@pytest.mark.parametrize("text", ["raise SystemExit(1)", "import sys\nprint('oh', file=sys.stderr)"])
def test_a_program_that_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Program(text, None).run("", tmp_path)
