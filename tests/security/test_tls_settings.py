"""Settings to contexts: files, contradictions, cipher suites."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.security.tls import ciphers
from pylogbroker.security.tls.contexts import client_context, server_context
from tests.security.engines import EnginePair, trusting, with_key
from tests.support.certificates import Certificates, tls_settings


def test_files(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    texts = {name.replace(".", "_"): text for name, text in certificates.broker.items()}
    server = tls_settings("required", **texts)
    assert set(server.paths) == {str(tmp_path / "broker.pem"), str(tmp_path / "authority.pem")}
    assert EnginePair.of(server, with_key("alice")).shake_hands() == []
    (tmp_path / "broker.pem").unlink()
    with pytest.raises(ConfigError, match=r"ssl.keystore.location: [^ ]*broker.pem: No such file"):
        server_context(server)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "x"}, "ssl.keystore.certificate.chain: expected a value"),
        ({"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}, "ssl.keystore.type is JKS; set it to PEM"),
        ({"ssl_keystore_type": "PEM", "ssl_keystore_password": "secret"}, "set ssl.key.password if"),
        ({"ssl_truststore_type": "PEM", "ssl_truststore_password": "secret"}, "PEM files have none"),
        ({**trusting(), "ssl_truststore_location": "x"}, "ssl.truststore.location is set, too"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "expected https, or empty"),
        ({"ssl_cipher_suites": ("TLS_NONE",)}, "'TLS_NONE' is not a known name"),
        ({"ssl_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "offered together"),
        (
            {"ssl_cipher_suites": ciphers.TLS_1_3, "ssl_enabled_protocols": ("TLSv1.2",)},
            "has no suite of the versions",
        ),
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        tls_settings(**given)
    assert "secret" not in str(raised.value)


def test_a_listener_needs_a_key_and_authorities_for_client_auth() -> None:
    with pytest.raises(ConfigError, match=r"ssl.keystore.location: a listener with TLS needs a key store"):
        server_context(tls_settings())
    nobody = with_key(client_auth="required", ssl_truststore_certificates=None)
    with pytest.raises(ConfigError, match=r"ssl.client.auth=required needs the authorities to trust"):
        server_context(nobody)


def test_without_a_trust_store_the_system_is_asked() -> None:
    assert (
        EnginePair.of(with_key(), client_context(tls_settings()))
        .shake_hands()[1]
        .startswith("the broker's certificate is not trusted")
    )


@pytest.mark.parametrize("name", ciphers.TLS_1_2)
def test_openssl_knows_each_suite_by_the_name_of_java(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{ciphers.TLS_1_2[name]}:@SECLEVEL=0")
    known = {each["name"]: each["id"] & 0xFFFF for each in context.get_ciphers()}
    assert ciphers.TLS_1_2[name] in known


def test_suites_decide_on_the_versions() -> None:
    java = tls_settings(ssl_cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), **trusting())
    openssl = with_key(ssl_cipher_suites=("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"))
    assert (java.versions, openssl.versions) == (("TLSv1.2",), ("TLSv1.2",))
    assert tls_settings(ssl_cipher_suites=ciphers.TLS_1_3).versions == ("TLSv1.3",)
    pair = EnginePair.of(openssl, java)
    assert pair.shake_hands() == []
    assert (pair.server._tls.cipher() or [None])[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    other = with_key(ssl_cipher_suites=("ECDHE-ECDSA-AES256-GCM-SHA384",))
    assert "no cipher suite" in EnginePair.of(other, java).shake_hands()[0]
