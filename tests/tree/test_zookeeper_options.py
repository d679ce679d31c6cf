"""Kafka's settings of the connection to ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import OPEN_ACL
from pylogbroker.metadata.zk_acl import secure_acl
from pylogbroker.tree.zookeeper_options import (
    ZooKeeperLogin,
    ZooKeeperOptions,
    ZooKeeperServers,
    ZooKeeperTls,
    check_tls,
    parse_connect,
    parse_options,
    parse_tls,
)

ENABLED = {"zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk:2181", [("zk", 2181)], ""),
        ("zk", [("zk", 2181)], ""),
        (" a:1 , b:2/kafka ", [("a", 1), ("b", 2)], "/kafka"),
        ("a:1/kafka/one/", [("a", 1)], "/kafka/one"),
        ("a:1/", [("a", 1)], ""),
        ("[::1]:3,10.0.0.1:4/x", [("::1", 3), ("10.0.0.1", 4)], "/x"),
    ],
)
def test_servers_and_chroot(text: str, servers: list[tuple[str, int]], chroot: str) -> None:
    parsed = parse_connect(text)
    assert parsed == ZooKeeperServers(tuple(servers), chroot)
    assert parse_connect(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    ["", ",", "a:1,", "/kafka", "a:b", "a:70000", "a:0", "a:1:2", "http://a:1", "a:1//x", "a:1/x/../y", "a:1/./x",
     "a b:1", "::1:2181", "user@a:1", "a:1/x\0"],
)  # fmt: skip
def test_a_bad_connect_string_names_the_expected_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^zookeeper\.connect: .* expected host:port.*zk1:2181,zk2:2181/kafka$"):
        parse_connect(text)


def test_without_tls() -> None:
    assert parse_tls({}) is None
    assert parse_tls({"zookeeper.ssl.client.enable": "false", "zookeeper.ssl.ocsp.enable": "true"}) is None


def test_tls_with_kafkas_defaults() -> None:
    defaults = {
        "zookeeper.ssl.cipher.suites": None,
        "zookeeper.ssl.crl.enable": "false",
        "zookeeper.ssl.endpoint.identification.algorithm": "HTTPS",
        "zookeeper.ssl.keystore.location": None,
        "zookeeper.ssl.protocol": "TLSv1.2",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    }
    assert parse_tls(ENABLED | defaults) == ZooKeeperTls()


def test_tls_with_files() -> None:
    settings = {
        "zookeeper.ssl.keystore.location": "/keys/broker.pem",
        "zookeeper.ssl.keystore.password": "secret",
        "zookeeper.ssl.truststore.location": "/keys/authorities",
        "zookeeper.ssl.truststore.type": "PEM",
        "zookeeper.ssl.endpoint.identification.algorithm": "",
    }
    tls = parse_tls(ENABLED | settings)
    assert tls == ZooKeeperTls("/keys/authorities", "/keys/broker.pem", "secret", check_hostname=False)
    assert "secret" not in repr(tls)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.3"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
        ("zookeeper.ssl.protocol", "SSLv3"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAPS"),
        ("zookeeper.ssl.keystore.location", "/keys/broker.jks"),
        ("zookeeper.ssl.truststore.location", "/keys/authorities.p12"),
    ],
)
def test_tls_settings_that_kazoo_lacks_are_errors(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        parse_tls(ENABLED | {name: value})


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"x", "no valid PEM, or password")]
)
def test_files_are_read_first(tmp_path: Path, store: str, content: bytes | None, reason: str) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_bytes(content)
    tls = parse_tls(ENABLED | {f"zookeeper.ssl.{store}.location": str(file)})
    with pytest.raises(ConfigError, match=f"^zookeeper.ssl.{store}.location: {file}: {reason}"):
        check_tls(tls)


def test_a_file_of_another_type_says_how_to_convert_it() -> None:
    settings = {"zookeeper.ssl.keystore.location": "/keys/broker.pem", "zookeeper.ssl.keystore.type": "PKCS12"}
    with pytest.raises(ConfigError, match=r"convert it with openssl, and set zookeeper\.ssl\.keystore\.type=PEM"):
        parse_tls(ENABLED | settings)


def test_kafkas_defaults() -> None:
    assert parse_options({}, secure_acl) == ZooKeeperOptions()
    assert ZooKeeperOptions().session_timeout == 18
    assert ZooKeeperOptions().in_flight_max == 10
    assert ZooKeeperOptions().default_acl("/config/users") == OPEN_ACL


def test_kafkas_settings() -> None:
    settings = {
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "2500",
        "zookeeper.max.in.flight.requests": "1000",
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.client.enable": "true",
    }
    options = parse_options(settings, secure_acl)
    assert options == ZooKeeperOptions(6.0, 2.5, 120, secure_acl, ZooKeeperTls())


def test_the_connection_timeout_is_the_sessions_by_default() -> None:
    assert ZooKeeperOptions(session_timeout=7).connection_seconds == 7
    assert ZooKeeperOptions(session_timeout=7, connection_timeout=3).connection_seconds == 3


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(ZooKeeperOptions(sasl=ZooKeeperLogin("user", "secret")))


@pytest.mark.parametrize("number", [0, 121])
def test_the_number_in_flight_is_bounded(number: int) -> None:
    with pytest.raises(ValueError, match="in_flight_max"):
        ZooKeeperOptions(in_flight_max=number)
