"""The page about tables: its programs and commands run, one after the other, and print what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from pylogbroker.cli import main
from tests.docs.page_programs import BLOCK, ROOT, Program
from tests.support.broker_process import BrokerProcess

PAGE = (ROOT / "docs" / "tables.md").read_text("utf-8")
STEP = re.compile(rf"{BLOCK.pattern}|^```console\n(?P<console>.*?)^```$", re.DOTALL | re.MULTILINE)


def printed(console: str, bootstrap: str) -> str:
    """Run the commands of a block; return the block with what they print."""
    lines = []
    for line in console.splitlines():
        if line.startswith("$ "):
            _, *words = shlex.split(line.removeprefix("$ "))
            result = CliRunner().invoke(main, words, env={"PYLOGBROKER_BOOTSTRAP_SERVER": bootstrap})
            assert result.exit_code == 0, result.output
            lines += [line, *result.output.splitlines()]
    return "\n".join(lines) + "\n"


def test_the_page(tmp_path: Path) -> None:
    steps = list(STEP.finditer(PAGE))
    assert len(steps) == PAGE.count("```python") + PAGE.count("```console")
    assert sum(step["output"] is not None for step in steps) == PAGE.count("```text")
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    try:
        for step in steps:
            if step["console"] is not None:
                assert printed(step["console"], broker.bootstrap) == step["console"]
            else:
                program = Program(step["program"], step["output"])
                assert program.run(broker.bootstrap, tmp_path) == (program.output or ""), program.text
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []
