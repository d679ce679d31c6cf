"""Rows as attributes: values in force by name, with their types."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pylogbroker.config import BROKER, TOPIC, BrokerConfig, ConfigSource, Setting
from pylogbroker.config.setting import TypedSetting
from pylogbroker.config.topic_config import TopicConfig

RENAMED = {
    "listeners": "listeners_text",
    "log.dirs": "log_dirs_text",
    "http.listeners": "http_listeners_text",
    "schema.registry.listeners": "schema_registry_listeners_text",
}
"""Settings whose attribute would hide one with the parsed value."""

WRONG = """
from pylogbroker.config import BrokerConfig
from pylogbroker.config.setting import fixed
from pylogbroker.config.value_kinds import BOOLEAN, TEXT

def read(config: BrokerConfig) -> int:
    config.log_retention_mss
    name: str = config.num_partitions
    rack: str = config.broker_rack
    return config.num_partitions

fixed("a.flag", BOOLEAN, "true", "low", "A default of another type.")
fixed("a.name", TEXT, 1, "low", "A default of another type.")
"""


def rows(table: type) -> dict[str, str]:
    """Return the attributes of a table by the names of their settings."""
    return {row.name: name for name, row in inspect.getmembers(table, lambda member: isinstance(member, TypedSetting))}


@pytest.mark.parametrize(("table", "settings"), [(BrokerConfig, BROKER), (TopicConfig, TOPIC)])
def test_each_setting_with_an_effect_is_an_attribute_of_its_name(table: type, settings: Mapping[str, Setting]) -> None:
    used = [name for name, setting in settings.items() if not setting.no_effect]
    assert rows(table) == {name: RENAMED.get(name, name.replace(".", "_")) for name in used}


def test_an_attribute_is_the_value_in_force() -> None:
    config = BrokerConfig({"log.retention.minutes": "5", "num.partitions": "7"})
    assert (config.num_partitions, config.log_retention_ms, config.broker_rack) == (7, 300_000, None)
    config.set_dynamic(ConfigSource.DYNAMIC_BROKER_CONFIG, {"log.retention.ms": "1000"})
    assert config.log_retention_ms == 1000
    assert config.topic({"segment.bytes": "100"}).segment_bytes == 100


@pytest.mark.parametrize("values", [BrokerConfig({}), BrokerConfig({}).topic({})])
def test_every_attribute_has_the_type_that_its_row_says(values: BrokerConfig | TopicConfig) -> None:
    for setting, name in rows(type(values)).items():
        value = getattr(values, name)
        assert value == values[setting]
        if value is None:
            assert inspect.getattr_static(type(values), name).default is None, setting


def test_mypy_finds_misspelt_names_and_wrong_types(tmp_path: Path) -> None:
    module = tmp_path / "wrong.py"
    module.write_text(WRONG)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        str(tmp_path),
        str(module),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert sorted(set(lines)) == [7, 8, 9, 12, 13], done.stdout
