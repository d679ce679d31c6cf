"""The file of settings, and assignments on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.config import BrokerConfig, properties
from pylogbroker.errors import ConfigError

SHIPPED = Path(__file__).parents[2] / "etc" / "server.properties"


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nlog.dirs=/a,\\\n  /b\nbroker.rack : östlich\nnum.partitions = 1\nnum.partitions=2\n")
    assert properties.read(str(file)) == {"log.dirs": "/a,/b", "broker.rack": "östlich", "num.partitions": "2"}


@pytest.mark.parametrize(
    "content",
    ["a=1\nb=östlich\n".encode("utf-8-sig"), "a=1\nb=östlich\n".encode("latin-1"), "a=1\r\nb=östlich\r\n".encode()],
    ids=["byte order mark", "latin-1", "lines of Windows"],
)
def test_files_saved_by_editors_are_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(content)
    assert properties.read(str(file)) == {"a": "1", "b": "östlich"}


def test_a_damaged_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"a=\\u12")
    with pytest.raises(ConfigError, match="not a properties file"):
        properties.read(str(file))


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing-here: No such file"):
        properties.read(str(tmp_path / "nothing-here"))


def test_assignments() -> None:
    assert properties.parse_assignments(["a=1", " b = x=y ", "a=2", "c="]) == {"a": "2", "b": "x=y", "c": ""}


@pytest.mark.parametrize("text", ["num.partitions", "=3", ""])
def test_invalid_assignments_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="expected name=value"):
        properties.parse_assignments([text])


def test_the_shipped_properties_file_gives_no_warning() -> None:
    config = BrokerConfig(properties.read(str(SHIPPED)))
    assert config.warnings == ()
    assert config.integer("broker.id") == -1  # the number that a broker without the file has
