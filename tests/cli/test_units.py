"""Units in values of settings."""

from __future__ import annotations

import pytest

from pylogbroker.cli.units import without_units
from pylogbroker.config.units import size_in_bytes


@pytest.mark.parametrize(
    ("name", "text", "plain"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "7 days", "7 days"),  # the broker rejects it
        ("log.retention.hours", "2w", "336"),
        ("log.retention.hours", "90m", "90m"),
        ("log.flush.interval.messages", "5m", "5m"),
        ("segment.bytes", "1GB", "1073741824"),
        ("segment.bytes", "512 kib", "524288"),
        ("segment.bytes", "1000", "1000"),
        ("segment.bytes", "0.5GB", "0.5GB"),
        ("producer_byte_rate", "10MB", "10485760"),
        ("controller_mutation_rate", "1k", "1k"),
        ("cleanup.policy", "1d", "1d"),
    ],
)
def test_a_value(name: str, text: str, plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert without_units({name: text}) == {name: plain}
    assert capsys.readouterr().err == (f"{name}={plain} ({text})\n" if plain != text else "")


def test_sizes() -> None:
    assert [size_in_bytes(text) for text in ("64MB", "1k", "2 TiB", "3", "1.5m", "m", "")] == [
        *(64 << 20, 1024, 2 << 40, 3),
        *(None, None, None),
    ]
