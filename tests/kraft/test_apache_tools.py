"""Kafka's tools, through members of this project, in a cluster with a broker and a controller of Apache Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.clients.admin import eventually
from tests.kraft.cluster import KraftPlace, QuorumCluster, kraft_apache, kraft_own
from tests.kraft.quorum import FIRST_CONTROLLER
from tests.kraft.run import RELEASES
from tests.peers.kafka import CLUSTER_ID
from tests.peers.processes import free_ports
from tests.peers.tools import tool
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
SECURITY = "org.apache.kafka.common.security"
MEMBER, OTHER_MEMBER, APACHE = 1, 2, 3
BROKERS = {MEMBER, OTHER_MEMBER, APACHE}
SETTINGS = {
    "broker.session.timeout.ms": "60000",  # nothing fails here but a machine that stands still
    "min.insync.replicas": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "the key of the cluster",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.tokens.plain.sasl.jaas.config": f'{SECURITY}.plain.PlainLoginModule required user_alice="word";',
    "listener.name.tokens.scram-sha-256.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
}


def with_sasl(place: KraftPlace, port: int) -> BrokerProcess:
    """Make a broker with a listener for SASL besides."""
    listeners = f"PLAINTEXT://127.0.0.1:{place.port},TOKENS://127.0.0.1:{port}"
    return kraft_own(attrs.evolve(place, settings={**place.settings, "listeners": listeners}))


@attrs.frozen
class Tools:
    """Tools of one release, which get the address of a member."""

    cluster: QuorumCluster
    release: str
    sasl_port: int

    def __call__(self, name: str, *arguments: str, check: bool = True) -> str:
        member = self.cluster.members[MEMBER]
        return self._run(name, "--bootstrap-server", member.bootstrap, *arguments, check=check)

    def of_cluster(self, command: str, *arguments: str, check: bool = True) -> str:
        """Run kafka-cluster, or a tool like it, which takes the address after the command."""
        address = ("--bootstrap-server", self.cluster.members[MEMBER].bootstrap)
        return self._run("kafka-cluster", command, *address, *arguments, check=check)

    def with_login(self, name: str, login: str, *arguments: str, mechanism: str = "SCRAM-SHA-256") -> str:
        """Run a tool that logs in."""
        file = self.cluster.directory / "client.properties"
        jaas = f"{SECURITY}.scram.ScramLoginModule required {login};"
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
        address = ("--bootstrap-server", f"127.0.0.1:{self.sasl_port}", "--command-config", str(file))
        return self._run(name, *address, *arguments, check=False, alone="tokenauth" in login)

    def _run(self, name: str, *arguments: str, check: bool, alone: bool = False) -> str:
        done = tool(name, *arguments, check=check, alone=alone, release=self.release)
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=RELEASES)
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    directory, [port] = tmp_path_factory.mktemp("cluster"), free_ports(1)
    makers = [partial(with_sasl, port=port), kraft_own, kraft_apache]
    with QuorumCluster.on_controllers(directory, makers, request.param, settings=SETTINGS) as cluster:
        yield Tools(cluster, request.param, port)
    assert [lines for lines in cluster.errors.values() if lines] == []


def described(tools: Tools, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Return leader, replicas and ISR of the partitions that kafka-topics describes."""
    shown = tools("kafka-topics", "--describe", "--topic", topic)
    lines = re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", shown)
    return {int(number): (int(leader), ids(replicas), sorted(ids(isr))) for number, leader, replicas, isr in lines}


def ids(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def test_a_topic_from_its_creation_to_its_deletion(tools: Tools, topic: str) -> None:
    of_topic = ("--topic", topic)
    tools("kafka-topics", "--create", *of_topic, "--partitions", "3", "--replication-factor", "3")
    tools.cluster.wait_until_in_sync(topic)
    states = described(tools, topic)
    assert {leader for leader, _, _ in states.values()} == BROKERS
    assert all(set(replicas) == set(isr) == BROKERS for _, replicas, isr in states.values())
    tools("kafka-topics", "--alter", *of_topic, "--partitions", "4")
    tools.cluster.wait_until_in_sync(topic)
    eventually(lambda: len(described(tools, topic)), 4)
    tools("kafka-topics", "--delete", *of_topic)
    eventually(lambda: topic in tools("kafka-topics", "--list").splitlines(), False)


def test_replicas_move_between_members_and_apache_kafka(tools: Tools, topic: str, tmp_path: Path) -> None:
    cluster, file = tools.cluster, tmp_path / "reassignment.json"
    cluster.create(topic, replicas=[[MEMBER, APACHE], [APACHE, MEMBER]])
    cluster.produce(topic, *[b"value"] * 20)
    moves: Mapping[int, Sequence[int]] = {0: [APACHE, OTHER_MEMBER], 1: [OTHER_MEMBER, MEMBER]}
    partitions = [{"topic": topic, "partition": number, "replicas": replicas} for number, replicas in moves.items()]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    reassign = partial(tools, "kafka-reassign-partitions", "--reassignment-json-file", str(file))
    started = reassign("--execute", "--throttle", "10000000")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in started

    def is_completed() -> bool:
        shown = reassign("--verify")
        return all(f"Reassignment of partition {topic}-{number} is completed." in shown for number in moves)

    wait_until(is_completed)
    assert "No partition reassignments found." in tools("kafka-reassign-partitions", "--list")
    eventually(lambda: cluster.states.assignment(topic), {0: (APACHE, OTHER_MEMBER), 1: (OTHER_MEMBER, MEMBER)})
    wait_until(lambda: not cluster.members[MEMBER].partition_dir(topic, 0).exists())
    assert {len(records) for records in cluster.replicas(topic, 0).values()} == {20}


def test_a_member_leads_again_by_an_election(tools: Tools, topic: str) -> None:
    cluster = tools.cluster
    cluster.create(topic, replicas=[[OTHER_MEMBER, APACHE, MEMBER]])
    assert cluster.stop(OTHER_MEMBER) == 0
    wait_until(lambda: cluster.leader(topic, 0) != OTHER_MEMBER)
    cluster.start(OTHER_MEMBER)
    cluster.wait_until_in_sync(topic)
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Successfully completed leader election (PREFERRED)" in tools("kafka-leader-election", *election)
    eventually(lambda: cluster.leader(topic, 0), OTHER_MEMBER)
    assert "Valid replica already elected" in tools("kafka-leader-election", *election)


@pytest.mark.parametrize(
    ("entity", "setting", "text"),
    [
        ("--entity-type brokers --entity-name 1", "log.roll.ms", "7200000"),
        ("--entity-type brokers --entity-name 3", "log.roll.ms", "7300000"),
        ("--entity-type brokers --entity-default", "message.max.bytes", "3000000"),
        ("--entity-type users --entity-name bob", "producer_byte_rate", "1024.0"),
        ("--entity-type users --entity-default", "request_percentage", "50.5"),
        ("--entity-type clients --entity-name app", "consumer_byte_rate", "2048.0"),
        ("--entity-type users --entity-name bob --entity-type clients --entity-default", "consumer_byte_rate", "4.0"),
        ("--entity-type ips --entity-name 10.0.0.1", "connection_creation_rate", "7.0"),
        ("--entity-type groups --entity-name workers", "consumer.session.timeout.ms", "50000"),
    ],
)
def test_settings_and_quotas(tools: Tools, entity: str, setting: str, text: str) -> None:
    if "groups" in entity and tools.release == "kafka-3.9":
        pytest.skip("groups have settings since Kafka 4")
    configs = partial(tools, "kafka-configs", *entity.split())
    configs("--alter", "--add-config", f"{setting}={text}")
    eventually(lambda: f"{setting}={text}" in configs("--describe"), True)
    configs("--alter", "--delete-config", setting)
    eventually(lambda: f"{setting}={text}" in configs("--describe"), False)


def test_a_topics_settings(tools: Tools, topic: str) -> None:
    tools.cluster.create(topic)
    configs = partial(tools, "kafka-configs", "--entity-type", "topics", "--entity-name", topic)
    configs("--alter", "--add-config", "retention.ms=555")
    eventually(lambda: "retention.ms=555" in configs("--describe"), True)
    rejected = configs("--alter", "--add-config", "retention.ms=soon", check=False)
    assert "Invalid value soon for configuration retention.ms" in rejected


def test_subscriptions_to_metrics_of_clients(tools: Tools) -> None:
    metrics = partial(tools, "kafka-client-metrics")
    metrics("--alter", "--name", "slow", "--interval", "60000", "--metrics", "org.apache.kafka.producer.")
    eventually(lambda: "slow" in metrics("--list").splitlines(), True)
    shown = metrics("--describe", "--name", "slow")
    assert "interval.ms=60000" in shown
    assert "metrics=org.apache.kafka.producer." in shown
    metrics("--delete", "--name", "slow")
    eventually(lambda: "slow" in metrics("--list").splitlines(), False)


def test_the_quorum_and_the_features(tools: Tools) -> None:
    quorum = partial(tools, "kafka-metadata-quorum", "describe")
    assert re.search(rf"^LeaderId: +{FIRST_CONTROLLER}$", quorum("--status"), re.MULTILINE)
    observers = re.findall(r"^(\d+)\s.*Observer", quorum("--replication"), re.MULTILINE)
    assert {int(number) for number in observers} == BROKERS
    features = tools("kafka-features", "describe")
    level = "4.4-IV2" if tools.release == "kafka-4.4" else "3.9-IV0"
    assert re.search(rf"Feature: metadata\.version\b.*FinalizedVersionLevel: {level}\b", features)
    rejected = tools("kafka-features", "upgrade", "--feature", "metadata.version=99", check=False)
    assert "metadata.version" in rejected
    assert re.search("only supports versions|Unknown|not.*support", rejected), rejected


def test_the_cluster(tools: Tools) -> None:
    assert f"Cluster ID: {CLUSTER_ID}" in tools.of_cluster("cluster-id")
    if tools.release == "kafka-4.4":
        endpoints = tools.of_cluster("list-endpoints")
        assert {int(number) for number in re.findall(r"^(\d+) +127\.0\.0\.1 ", endpoints, re.MULTILINE)} == BROKERS
    unregistered = tools.of_cluster("unregister", "--id", "77", check=False)
    assert re.search("is not currently registered|BrokerIdNotRegistered", unregistered), unregistered
    versions = tools("kafka-broker-api-versions")
    assert {int(number) for number in re.findall(r"\(id: (\d+) rack:", versions)} == BROKERS


def test_log_directories(tools: Tools, topic: str) -> None:
    cluster = tools.cluster
    cluster.create(topic, replicas=[[MEMBER, APACHE]])
    cluster.produce(topic, *[b"value"] * 20)
    cluster.wait_until_in_sync(topic)
    shown = tools("kafka-log-dirs", "--describe", "--topic-list", topic)
    answer: dict[str, Any] = json.loads(shown.splitlines()[-1])
    sizes = {
        broker["broker"]: partition["size"]
        for broker in answer["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert set(sizes) == {MEMBER, APACHE}
    assert len(set(sizes.values())) == 1


def test_acls(tools: Tools) -> None:
    entry = ("--allow-principal", "User:bob", "--topic", "orders", "--operation", "Write")
    tools("kafka-acls", "--add", *entry)

    def entries() -> int:
        return tools("kafka-acls", "--list").count("principal=User:bob")

    eventually(entries, 1)
    tools("kafka-acls", "--remove", "--force", "--topic", "orders")
    eventually(entries, 0)


def test_users_and_delegation_tokens(tools: Tools) -> None:
    configs = partial(tools, "kafka-configs", "--entity-type", "users", "--entity-name", "admin")
    configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=word]")
    eventually(lambda: "SCRAM-SHA-256=iterations=4096" in configs("--describe"), True)
    user = 'username="admin" password="word"'
    of_tokens: Callable[..., str] = partial(tools.with_login, "kafka-delegation-tokens", user)
    made = of_tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:alice")
    token = re.search(r"^(\S{22})\s+(\S{88})\s+User:admin", made, re.MULTILINE)
    assert token is not None, made
    described_tokens = partial(of_tokens, "--describe", "--owner-principal", "User:admin")
    eventually(lambda: token[1] in described_tokens(), True)
    by_token = f'username="{token[1]}" password="{token[2]}" tokenauth="true"'
    assert "Cluster ID" not in tools.with_login("kafka-topics", by_token, "--list")
    assert "Authentication failed" not in tools.with_login("kafka-topics", by_token, "--list")
    of_tokens("--renew", "--renew-time-period", "-1", "--hmac", token[2])
    of_tokens("--expire", "--expiry-time-period", "-1", "--hmac", token[2])
    eventually(lambda: token[1] in described_tokens(), False)
