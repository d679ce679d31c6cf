"""The page of archives: its program reads an archived topic, in a directory and with the plugin that the page shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs.page_programs import ROOT, programs
from tests.docs.test_command_lines import LINE, parsed
from tests.support.broker_process import BrokerProcess

PAGE = ROOT / "docs" / "archives.md"
FILE = re.compile(r"^```python (?P<path>\S+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_the_program_of_the_page(kind: str, tmp_path: Path) -> None:
    [plugin] = FILE.finditer(PAGE.read_text())
    path = tmp_path / "page" / plugin["path"]
    path.parent.mkdir(parents=True)
    path.write_text(plugin["text"])
    (tmp_path / "archive").mkdir()
    place = tmp_path / "archive" / "archive.db" if kind == "sqlite" else tmp_path / "archive"
    settings = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage": f"{kind}:{place}",
        "remote.log.manager.task.interval.ms": "200",
    }
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "page")}
    broker = BrokerProcess(tmp_path / "broker", settings, environment=environment)
    broker.start()
    try:
        [program] = programs(PAGE)
        assert program.run(broker.bootstrap, tmp_path) == program.output
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []


def test_lines_of_the_page() -> None:
    lines = LINE.findall(PAGE.read_text("utf-8"))
    assert len(lines) == 4
    for line in lines:
        parsed(line.replace("\\\n", " ").split())
