"""The page for users: its file of settings is accepted, and its program prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from pylogbroker.config.properties import loads
from pylogbroker.mirror.configuration import mirrors_of
from pylogbroker.testing import Broker
from tests.docs.page_programs import ROOT, programs

PAGE = ROOT / "docs" / "mirror.md"


def test_file_of_settings() -> None:
    [text] = re.findall(r"```properties\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    east, west = mirrors_of(loads(text))
    assert east.topics == ("orders", "clicks.*")
    assert west.topics_excluded == (r".*\.tmp", r".*[\-.]internal", "__.*")
    assert west.bytes_per_second_max == 10_000_000
    assert west.target.settings["sasl.username"] == "mirror"


def test_program(tmp_path: Path) -> None:
    [program] = programs(PAGE)
    with Broker() as source, Broker() as target:
        text = program.text.replace("127.0.0.1:9093", target.bootstrap)
        assert attrs.evolve(program, text=text).run(source.bootstrap, tmp_path) == program.output
