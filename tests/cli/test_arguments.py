"""Parsing of arguments that several commands share."""

from __future__ import annotations

import click
import pytest

from pylogbroker.cli.arguments import partitions


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["orders"], {"orders": None}),
        (["orders:3,0,3"], {"orders": (0, 3)}),
        (["orders:2", "returns", "orders:0,1"], {"orders": (0, 1, 2), "returns": None}),
        (["orders:2", "orders"], {"orders": None}),
        (["orders", "orders:2"], {"orders": None}),
    ],
)
def test_partitions_of_topics(texts: list[str], expected: dict[str, tuple[int, ...] | None]) -> None:
    assert partitions(texts, "TOPIC") == expected


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:1,", "orders:-1"])
def test_bad_partitions(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected TOPIC or TOPIC:PARTITION"):
        partitions([text], "TOPIC")
