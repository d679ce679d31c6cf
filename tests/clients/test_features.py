"""Features of the cluster, as Kafka 4.4's tool shows and changes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.adapters.confluent import Confluent
from tests.clients.admin import create_topic
from tests.clients.model import Rec
from tests.peers import available
from tests.peers.maven import PeerError
from tests.peers.tools import tool
from tests.support.brokers import Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")


def features(bootstrap: str, *arguments: str) -> str:
    return tool("kafka-features", "--bootstrap-server", bootstrap, *arguments, release="kafka-4.4").stdout


def test_features_are_described(bootstrap: str) -> None:
    lines = features(bootstrap, "describe").splitlines()
    [line] = (line for line in lines if line.startswith("Feature: metadata.version"))
    assert "SupportedMaxVersion: 4.4-IV2" in line
    assert "FinalizedVersionLevel: 4.4-IV2" in line


def test_a_level_that_is_in_force_can_be_set_again(bootstrap: str) -> None:
    assert "was upgraded to 33" in features(bootstrap, "upgrade", "--feature", "metadata.version=33")


def test_changes_that_are_rejected_say_why(bootstrap: str) -> None:
    with pytest.raises(PeerError, match="only supports versions 7-33"):
        features(bootstrap, "upgrade", "--feature", "metadata.version=34")
    with pytest.raises(PeerError, match=r"Unsupported metadata\.version downgrade from 33 to 30"):
        features(bootstrap, "downgrade", "--feature", "metadata.version=30")


def test_consumer_groups_follow_the_level_of_their_feature(new_broker: Callable[..., Broker]) -> None:
    """Switch groups of KIP-848 off and on while the broker runs."""
    broker = new_broker()
    broker.start()
    bootstrap = broker.bootstrap
    create_topic(bootstrap, "t")
    Confluent().write(bootstrap, "t", [Rec(b"one", partition=0)])

    def consume() -> str:
        options = ("--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "1", "--timeout-ms", "200000")
        protocol = ("--command-property", "group.protocol=consumer")
        done = tool(
            "kafka-console-consumer",
            *("--bootstrap-server", bootstrap, *options, *protocol),
            check=False,
            release="kafka-4.4",
        )
        return done.stdout + done.stderr

    assert "was downgraded to 0" in features(bootstrap, "downgrade", "--feature", "group.version=0")
    text = consume()
    assert "UnsupportedVersionException" in text, text
    assert "was upgraded to 1" in features(bootstrap, "upgrade", "--feature", "group.version=1")
    assert "one" in consume().splitlines()
