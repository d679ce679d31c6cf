"""Topics by regex."""

import pytest

from pylogbroker.client import Blacklist, Whitelist
from pylogbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders-2", False),
        ("orders,returns", "returns", True),
        ("o{1,2}", "oo", True),
        ("[a,b]", "a", True),
        (r"a\.b|c.*", "cde", True),
        (".*", "__consumer_offsets", False),
    ],
)
def test_whitelists(pattern: str, topic: str, matches: bool) -> None:
    assert Whitelist(pattern).matches(topic) is matches


def test_blacklists() -> None:
    assert Blacklist("orders,returns").matches("others")
    assert not Blacklist("orders,returns").matches("returns")
    assert not Blacklist("orders").matches("__consumer_offsets")
    assert Blacklist("orders", internal=True).matches("__consumer_offsets")


def test_an_invalid_regex_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"orders\("):
        Whitelist("orders(")
