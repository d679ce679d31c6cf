"""The reference of settings: what is selected, and that text, JSON and the page in `docs/` say what the table says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pylogbroker.config import SETTINGS, BrokerConfig
from pylogbroker.config.reference import as_json, as_markdown, as_text, select
from pylogbroker.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_text_has_every_setting_with_its_default() -> None:
    text = as_text(SETTINGS)
    paragraphs = {paragraph.splitlines()[0]: paragraph for paragraph in text.strip().split("\n\n")}
    assert set(paragraphs) == {setting.name for setting in SETTINGS}
    assert "default 1048588" in paragraphs["message.max.bytes"]
    assert "int" in paragraphs["message.max.bytes"]
    assert max(map(len, text.splitlines())) <= 100
    assert "Has no effect: one thread does all network work" in " ".join(paragraphs["num.network.threads"].split())
    names = list(paragraphs)
    assert names.index("num.network.threads") > names.index("retention.ms")


def test_json_has_every_setting_and_defaults_that_a_file_may_hold() -> None:
    rows = json.loads(as_json(SETTINGS))
    assert [row["name"] for row in rows] == [setting.name for setting in SETTINGS]
    broker = {row["name"]: row["default"] for row in rows if row["scope"] == "broker" and row["default"] is not None}
    config = BrokerConfig(broker)
    assert config.integer("message.max.bytes") == int(broker["message.max.bytes"]) == 1_048_588
    [retention] = [row for row in rows if row["name"] == "retention.ms"]
    assert retention["synonyms"] == ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    assert (retention["scope"], retention["type"], retention["dynamic"]) == ("topic", "long", True)
    assert {row["name"]: row["has_effect"] for row in rows}.items() >= {
        "retention.ms": True,
        "ssl.protocol": False,
    }.items()


def test_names_and_patterns_select_rows() -> None:
    assert [setting.name for setting in select(["retention.ms"])] == ["retention.ms"]
    found = {setting.name for setting in select(["log.retention.*", "retention.ms"])}
    assert {"log.retention.ms", "log.retention.hours", "log.retention.bytes", "retention.ms"} <= found
    assert all(name == "retention.ms" or name.startswith("log.retention.") for name in found)
    assert select([]) == list(SETTINGS)
    assert {setting.scope.value for setting in select(["compression.type"])} == {"broker", "topic"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("retention.mss", r"there is no setting 'retention.mss'; did you mean retention.ms\?$"),
        ("nothing.of.the.kind.at.all", "there is no setting 'nothing.of.the.kind.at.all'$"),
        ("nothing*", r"there is no setting 'nothing\*'"),
    ],
)
def test_a_name_that_no_setting_has_is_an_error(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(["retention.ms", name])


def test_the_page_is_the_one_that_the_table_gives() -> None:
    remedy = "generate it: twistd pylogbroker --describe-config --format markdown > docs/settings.md"
    assert PAGE.read_text() == as_markdown(SETTINGS), remedy


def test_every_row_of_the_page_has_five_cells() -> None:
    rows = [line for line in as_markdown(SETTINGS).splitlines() if line.startswith("| `")]
    assert len(rows) == len(SETTINGS)
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
