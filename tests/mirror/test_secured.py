"""Mirrors between clusters with TLS and SASL, and what their users read when a certificate or password is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.internet import reactor
from twisted.internet.defer import ensureDeferred, gatherResults

from pylogbroker.cli.mirror import command
from pylogbroker.client import Producer
from pylogbroker.client.admin import ConfigResource, ConfigResourceType
from pylogbroker.client.sync import AdminClient
from pylogbroker.client.sync import Producer as SyncProducer
from pylogbroker.mirror.errors import MirrorError
from pylogbroker.mirror.mirror import Mirror
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.security.acls.bindings import AclFilter, AclResourceType
from pylogbroker.testing import Broker
from tests.mirror.conftest import copy_all
from tests.peers import available as java_available
from tests.peers.kafka import KafkaBroker
from tests.peers.processes import free_ports
from tests.support.broker_process import QUICK_SETTINGS
from tests.support.certificates import Certificates

PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="broker" password="secret" user_broker="secret" user_mirror="of the mirror";'
)


@pytest.fixture(scope="module")
def east() -> Iterator[Broker]:
    with Broker(users={"mirror": "of the east"}, tls=True) as broker:
        broker.produce(broker.create_topic("orders"), "tea", "milk")
        with AdminClient(**named(broker.client_settings())) as admin:
            admin.groups.alter_offsets("billing", {("orders", 0): 1})
        yield broker


@pytest.fixture(scope="module")
def offline() -> Iterator[Broker]:
    with Broker(users={"mirror": "of the offline cluster"}, tls=True) as broker:
        yield broker


def named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def cluster(alias: str, settings: dict[str, str], **others: str) -> MirroredCluster:
    given = {**settings, "bootstrap.connect.max.ms": "1000", **others}
    return MirroredCluster(given.pop("bootstrap.servers"), alias, given)


def mirror(source: MirroredCluster, target: MirroredCluster) -> Mirror:
    return Mirror(MirrorSettings(source, target, ("orders",), commit_interval=0.01), reactor)


async def test_records_and_groups_follow_with_tls_and_passwords_on_both_sides(east: Broker, offline: Broker) -> None:
    both = cluster("east", east.client_settings()), cluster("offline", offline.client_settings())
    status = await copy_all(mirror(*both))
    assert (status.counts.records, status.stopped) == (2, {})
    with AdminClient(**named(offline.client_settings())) as admin:
        assert admin.groups.offsets("billing")["orders", 0].offset == 1


@pytest.mark.parametrize("side", ["source east", "target offline"])
async def test_wrong_password_names_the_cluster(east: Broker, offline: Broker, side: str) -> None:
    passwords = {name: {"sasl.password": "wrong"} if name in side else {} for name in ("east", "offline")}
    source = cluster("east", east.client_settings(), **passwords["east"])
    target = cluster("offline", offline.client_settings(), **passwords["offline"])
    with pytest.raises(MirrorError, match=rf"the {side} \(.*\) cannot be used: .*invalid credentials"):
        await copy_all(mirror(source, target))


def test_command_ends_with_the_setting_that_is_wrong(east: Broker, offline: Broker, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    lines = ["clusters = east, offline", "east->offline.enabled = true", "bootstrap.connect.max.ms = 1000"]
    lines += [f"east.{name} = {value}" for name, value in east.client_settings().items()]
    lines += [f"offline.{name} = {value}" for name, value in offline.client_settings().items()]
    lines += [f"offline.ssl.ca.location = {tmp_path / 'none.pem'}"]
    file.write_text("\n".join(lines))
    result = CliRunner().invoke(command, ["--config", str(file), "--until-caught-up"])
    assert result.exit_code == 1
    assert "ssl.ca.location" in str(result.exception)
    assert "none.pem: No such file" in str(result.exception)


ALL_RIGHTS = tuple(
    f"mirror all {kind}" for kind in ("topic:*", "group:*", "transactional_id:*", "cluster:kafka-cluster")
)


def test_command_with_a_file_lets_all_follow_with_tls_passwords_and_rights(tmp_path: Path) -> None:
    """The target has the topic already, with fewer partitions and other settings."""
    users = {"mirror": "of a mirror"}
    with (
        Broker(users=users, tls=True, acls=(*ALL_RIGHTS, "ann read topic:orders")) as source,
        Broker(users=users, tls=True, acls=ALL_RIGHTS) as target,
    ):
        source.produce(source.create_topic("orders", 2, retention_ms=123_456_000), "tea", "milk")
        target.create_topic("east.orders", 1)
        lines = ["clusters = east, offline", "east->offline.enabled = true", "sync.topic.acls.enabled = true"]
        lines += [f"east.{name} = {value}" for name, value in source.client_settings("mirror").items()]
        lines += [f"offline.{name} = {value}" for name, value in target.client_settings("mirror").items()]
        file = tmp_path / "mirror.properties"
        file.write_text("\n".join(lines))
        command = [sys.executable, "-m", "pylogbroker.cli", "mirror", "--config", str(file), "--until-caught-up", "-q"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert {record.value for record in target.records("east.orders")} == {b"tea", b"milk"}
        assert target.topics["east.orders"] == 2
        with AdminClient(**named(target.client_settings("mirror"))) as admin:
            assert "ann" in str(admin.acls.describe(AclFilter(type=AclResourceType.TOPIC, name="east.orders")))
            topic = ConfigResource(ConfigResourceType.TOPIC, "east.orders")
            assert admin.configs.describe([topic])[topic]["retention.ms"].value == "123456000"


async def test_certificate_of_another_authority_is_named(east: Broker, offline: Broker) -> None:
    other = offline.client_settings()["ssl.ca.location"]
    source = cluster("east", east.client_settings(), **{"ssl.ca.location": other})
    with pytest.raises(MirrorError, match=r"the source east .* certificate is not trusted .* ssl\.ca\.location"):
        await copy_all(mirror(source, cluster("offline", offline.client_settings())))


PROTOCOLS: dict[str, dict[str, Any]] = {
    "PLAINTEXT": {},
    "SSL": {"tls": True},
    "SASL_PLAINTEXT": {"users": {"mirror": "secret"}},
    "SASL_SSL": {"users": {"mirror": "secret"}, "tls": True},
}


async def test_every_wrong_security_protocol_ends_soon_with_that_setting() -> None:
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(Broker(**options)) for name, options in PROTOCOLS.items()}
        mixes = [(listener, client) for listener in PROTOCOLS for client in PROTOCOLS if listener != client]

        async def error_of(listener: str, client: str, *, is_source: bool) -> str:
            settings = brokers[client].client_settings() | {"bootstrap.servers": brokers[listener].bootstrap}
            if "ssl.ca.location" in settings:
                settings["ssl.ca.location"] = (
                    brokers[listener].client_settings().get("ssl.ca.location", settings["ssl.ca.location"])
                )
            wrong, right = cluster("wrong", settings), cluster("right", brokers["PLAINTEXT"].client_settings())
            with pytest.raises(MirrorError) as caught:
                await mirror(*((wrong, right) if is_source else (right, wrong))).run().addTimeout(30, reactor)
            return str(caught.value)

        works = [
            ensureDeferred(error_of(*mix, is_source=is_source))
            for mix in mixes
            for is_source in ((True, False) if mix[1] in ("PLAINTEXT", "SSL") else (True,))
        ]
        errors = await gatherResults(works, consumeErrors=True)
    assert len(errors) == 18
    assert [error for error in errors if "security.protocol" not in error] == []
    assert {error.split(" wrong ")[0] for error in errors} == {"the source", "the target"}


@pytest.mark.kafka
async def test_apache_kafka_with_tls_and_passwords(offline: Broker, tmp_path: Path) -> None:
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    certificates = Certificates(tmp_path / "certificates")
    port, controller = free_ports(2)
    settings = {
        **QUICK_SETTINGS,
        "listeners": f"SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_LOGIN,
        **certificates.broker,
    }
    login = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mirror",
        "sasl.password": "of the mirror",
        "ssl.ca.location": certificates.authority_file,
    }
    apache = KafkaBroker(tmp_path / "apache", settings, port)
    apache.start()
    try:
        with SyncProducer(**named(login)) as producer:
            producer.send("orders", b"rice")
        to_ours = await copy_all(mirror(cluster("apache", login), cluster("offline", offline.client_settings())))
        assert (to_ours.counts.records, to_ours.stopped) == (1, {})
        producer = Producer(settings=offline.client_settings())
        await producer.send("receipts", b"paid")
        await producer.close()
        back = MirrorSettings(
            cluster("offline", offline.client_settings()), cluster("apache", login), ("receipts",), commit_interval=0.01
        )
        to_apache = await copy_all(Mirror(back, reactor))
        assert (to_apache.counts.records, to_apache.stopped) == (1, {})
        with pytest.raises(MirrorError, match=r"the source apache .*Authentication failed"):
            await copy_all(
                mirror(
                    cluster("apache", login, **{"sasl.password": "x"}), cluster("offline", offline.client_settings())
                )
            )
    finally:
        apache.stop()
