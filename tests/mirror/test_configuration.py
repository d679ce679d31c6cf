"""Files of settings, with the names of MirrorMaker 2."""

from __future__ import annotations

import pytest

from pylogbroker.config.properties import loads
from pylogbroker.errors import ConfigError
from pylogbroker.mirror.configuration import mirrors_of, replication_policy
from pylogbroker.mirror.topics import EXCLUDED

# https://github.com/apache/kafka/blob/3.9/config/connect-mirror-maker.properties, without comments
OF_KAFKA = """
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
"""


def test_kafkas_own_example() -> None:
    first, second = mirrors_of(loads(OF_KAFKA))
    assert (first.source.alias, first.target.alias) == ("A", "B")
    assert (second.source.alias, second.target.alias) == ("B", "A")
    assert first.source.bootstrap == "A_host1:9092, A_host2:9092, A_host3:9092"
    assert (first.topics, first.topics_excluded, first.replication_factor) == ((".*",), EXCLUDED, 1)
    assert first.policy.target_topic("A", "orders") == "A.orders"
    assert first.exactly_once


def test_settings_of_one_mirror_come_before_those_of_all() -> None:
    text = """
    clusters = a.b, c, d
    a.b.bootstrap.servers = h:1
    c.bootstrap.servers = h:2
    d.bootstrap.servers = h:3
    security.protocol = SSL
    c.security.protocol = PLAINTEXT
    c.producer.max.request.size = 2000000
    a.b->c.enabled = true
    d->c.enabled = true
    topics = orders, clicks.*
    d->c.topics = other
    topics.exclude = .*x
    a.b->c.max.bytes.per.second = 1000
    a.b->c.commit.interval.ms = 50
    exactly.once.source.support = disabled
    topics.recreated = restart
    replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
    """
    first, second = mirrors_of({name.strip(): value for name, value in loads(text).items()})
    assert (first.topics, second.topics) == (("orders", "clicks.*"), ("other",))
    assert first.topics_excluded == (".*x",)
    assert (first.bytes_per_second_max, second.bytes_per_second_max) == (1000, 0)
    assert (first.commit_interval, second.commit_interval) == (0.05, 0.1)
    assert first.source.settings == {"security.protocol": "SSL"}
    assert first.target.settings == {"security.protocol": "PLAINTEXT", "max.request.size": "2000000"}
    assert first.policy.target_topic("a.b", "orders") == "orders"
    assert (first.exactly_once, first.restart_recreated) == (False, True)


def test_mirrors_are_chosen_by_their_clusters() -> None:
    names = loads(OF_KAFKA)
    assert [chosen.source.alias for chosen in mirrors_of(names, target="A")] == ["B"]
    names["B->A.enabled"] = "false"
    assert len(mirrors_of(names)) == 1
    assert [chosen.source.alias for chosen in mirrors_of(names, "B", "A")] == ["B"]  # named: it need not be enabled


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("clusters", "", "clusters: is not set"),
        ("A.bootstrap.servers", "", "A.bootstrap.servers: is not set"),
        ("A->B.enabled", "yes", "'yes' is not accepted; expected false or true"),
        ("replication.factor", "many", "expected a number from -1 on"),
        ("topics.recreated", "ignore", "expected stop or restart"),
        ("replication.policy.class", "com.example.Names", "replication.policy.class: 'com.example.Names'"),
        ("A.sasl.password", "${file:/secrets:password}", "configuration providers are not supported"),
    ],
)
def test_errors_name_the_setting(name: str, value: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        mirrors_of({**loads(OF_KAFKA), name: value})
    assert error in str(raised.value)


def test_no_enabled_mirror_is_an_error() -> None:
    names = {name: value for name, value in loads(OF_KAFKA).items() if not name.endswith("enabled")}
    with pytest.raises(ConfigError, match=r"set A->B\.enabled=true"):
        mirrors_of(names)
    with pytest.raises(ConfigError, match="there is no C; the clusters are A, B"):
        mirrors_of(names, "C")


def test_separator_of_the_prefix() -> None:
    assert replication_policy("prefix", "_").target_topic("a", "t") == "a_t"
    assert replication_policy("DefaultReplicationPolicy").target_topic("a", "t") == "a.t"


def test_settings_of_a_target_are_those_of_its_mirrors() -> None:
    first, second = mirrors_of({**loads(OF_KAFKA), "A.exactly.once.source.support": "disabled"})
    assert (first.target.alias, first.exactly_once) == ("B", True)
    assert (second.target.alias, second.exactly_once) == ("A", False)
