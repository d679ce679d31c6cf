"""The file of settings, and assignments on the command line."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.config import BrokerConfig, properties
from pylogbroker.errors import ConfigError
from tests.support.examples import examples

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


@settings(max_examples=examples(300))
@given(
    st.lists(st.sampled_from(["a", "b.c=", "=", ":", " ", "#", "!", "\\", "\n", "\r", "\t", "\f", "\v", "u12", "é"]))
)
def test_a_text_means_what_it_means_in_java(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        expected = dict(javaproperties.loads(text))
    except ValueError:
        with pytest.raises(ValueError, match="escape"):
            properties.loads(text)
    else:
        assert properties.loads(text) == expected


_TEXTS = st.text("aZ09._-,/ =:#!\\\n\té")


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(["a", "b.c"]) | _TEXTS, _TEXTS, max_size=2))
def test_settings_are_written_as_in_java(written: dict[str, str]) -> None:
    text = properties.dumps(written)
    assert dict(javaproperties.loads(text)) == properties.loads(text) == written


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
