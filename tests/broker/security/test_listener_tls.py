"""TLS of a listener: what is loaded, who its clients are, and when it must be loaded again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from pylogbroker.broker.security.listener_tls import ListenerTls
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed
from tests.support.certificates import Certificates, authority, identity

ALICE = identity("alice").certificate.public_bytes(Encoding.DER)


def load(settings: dict[str, str], protocol: str = "SSL") -> ListenerTls:
    config = BrokerConfig({"listeners": "OUT://:9093", "listener.security.protocol.map": f"OUT:{protocol}", **settings})
    return ListenerTls.load(config, config.listeners[0])


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_clients_have_the_names_of_their_certificates(certificates: Certificates) -> None:
    tls = load(certificates.broker)
    assert tls.principal_of(ALICE) == "User:CN=alice"
    assert tls.principal_of(None) == "User:ANONYMOUS"
    assert tls.client is None
    assert isinstance(tls.engine(), TlsEngine)
    with pytest.raises(TlsFailed, match="a name that cannot be read"):
        tls.principal_of(b"not a certificate")


def test_rules_give_other_names_or_none(certificates: Certificates) -> None:
    tls = load({**certificates.broker, "ssl.principal.mapping.rules": "RULE:CN=(a.*)/$1/U"})
    assert tls.principal_of(ALICE) == "User:ALICE"
    with pytest.raises(TlsFailed, match=r"no rule of ssl.principal.mapping.rules applies to CN=bob"):
        tls.principal_of(identity("bob").certificate.public_bytes(Encoding.DER))


def test_listener_settings_override_the_general_ones(certificates: Certificates) -> None:
    own = {f"listener.name.out.{name}": text for name, text in certificates.broker.items()}
    tls = load({**own, "ssl.client.auth": "required", "ssl.keystore.location": "/none"})
    assert tls.settings.client_auth == "required"


def test_an_error_names_the_listener(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"^listener OUT: ssl.keystore.location: a listener with TLS needs"):
        load({})
    with pytest.raises(ConfigError, match=r"^listener OUT: ssl.keystore.location: /none: No such file"):
        load({**certificates.broker, "ssl.keystore.location": "/none"})


def test_a_changed_file_is_noticed(certificates: Certificates) -> None:
    tls = load(certificates.broker)
    assert not tls.is_outdated
    path = Path(certificates.broker["ssl.keystore.location"])
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    assert tls.is_outdated
    renewed = load(certificates.broker)
    replacement = path.with_suffix(".new")
    replacement.write_bytes(content + b"\n")
    os.replace(replacement, path)
    assert renewed.is_outdated
    path.unlink()
    assert tls.is_outdated


def test_the_listener_of_brokers_connects_to_others(certificates: Certificates) -> None:
    tls = load({**certificates.broker, "zookeeper.connect": "localhost"})
    assert tls.client is not None
    assert isinstance(tls.client.engine("localhost"), TlsEngine)


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_brokers_that_could_not_connect_to_each_other_do_not_start(
    certificates: Certificates, client_auth: str
) -> None:
    other = certificates.file("another.pem", authority("another").identity.certificate_pem)
    settings = {**certificates.broker, "ssl.truststore.location": other, "ssl.client.auth": client_auth}
    load(settings)
    problem = (
        "^listener OUT: brokers with these stores could not connect to each other: the broker's certificate is not"
    )
    with pytest.raises(ConfigError, match=problem):
        load({**settings, "zookeeper.connect": "localhost"})
