"""Key stores and trust stores: what is accepted, and one clear line for what is not."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from pylogbroker.errors import ConfigError
from pylogbroker.security.tls.authority import Authority
from pylogbroker.security.tls.stores import StoreContent, read_key_store, read_trust_store

AUTHORITY = Authority.create("authority", days=10)
OWNER = AUTHORITY.issue("broker", ["localhost"])
ROOT = AUTHORITY.identity


def key_store(content: str | bytes, kind: str = "PEM", password: str | None = None) -> StoreContent:
    return StoreContent("the store", kind, content.encode() if isinstance(content, str) else content, password)


def as_pkcs12(password: str = "secret") -> bytes:
    return pkcs12.serialize_key_and_certificates(
        b"broker", OWNER._key, OWNER.certificate, [ROOT.certificate], BestAvailableEncryption(password.encode())
    )


@pytest.mark.parametrize(
    "store",
    [
        key_store(OWNER.pem() + ROOT.certificate_pem),
        key_store(ROOT.certificate_pem + OWNER.certificate_pem + "a comment\n" + OWNER.key_pem()),
        key_store(OWNER.pem("secret") + ROOT.certificate_pem, password="secret"),
        key_store(as_pkcs12(), "PKCS12", "secret"),
        key_store(as_pkcs12(), "JKS", "secret"),
    ],
)
def test_the_key_and_its_chain(store: StoreContent) -> None:
    pair = read_key_store(store)
    assert pair.chain.decode() == OWNER.certificate_pem + ROOT.certificate_pem
    assert pair.key.decode() == OWNER.key_pem()
    assert "PRIVATE" not in repr(pair) + repr(store)
    assert "secret" not in repr(store)


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (key_store(OWNER.certificate_pem), "has 0 private keys; expected one"),
        (key_store(OWNER.pem() + OWNER.key_pem()), "has 2 private keys"),
        (key_store(OWNER.key_pem()), "has no certificate"),
        (key_store(AUTHORITY.issue("other").key_pem() + OWNER.certificate_pem), "key does not fit the certificate"),
        (key_store(OWNER.pem("secret")), "needs ssl.key.password"),
        (key_store(OWNER.pem("secret"), password="wrong"), "damaged, or ssl.key.password is wrong"),
        (key_store(OWNER.pem(), password="secret"), "has no password; remove"),
        (key_store(OWNER.pem().replace("M", "A", 30)), "damaged"),
        (key_store(OWNER.key_pem() + OWNER.certificate_pem.replace("M", "A", 30)), "a certificate is damaged"),
        (key_store(AUTHORITY.issue("late", days=-1).pem()), "the certificate has expired, on 20"),
        (key_store(as_pkcs12(), "PKCS12", "wrong"), "the password is wrong, or the file is damaged"),
        (key_store(as_pkcs12(), "PKCS12"), "the password is wrong"),
        (key_store(as_pkcs12(), "PEM", "secret"), "is not PEM, but probably PKCS12"),
        (key_store(OWNER.pem(), "JKS"), "is not JKS, but PEM; set the type PEM"),
        (key_store(b"\xfe\xed\xfe\xed\0\0\0\2", "JKS"), "keytool -importkeystore .* -deststoretype PKCS12"),
        (key_store(b"nonsense", "PKCS12"), "is not PKCS12, but of no known type"),
        (key_store(b"", "PEM"), "has 0 private keys"),
    ],
)
def test_a_bad_key_store_is_named(store: StoreContent, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^the store: .*{problem}") as raised:
        read_key_store(store)
    assert "\n" not in str(raised.value)


def test_trust_stores() -> None:
    two = Authority.create("another", 5).identity.certificate_pem + ROOT.certificate_pem
    assert read_trust_store(key_store(two)) == two
    packed = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(ROOT.certificate, b"root")], BestAvailableEncryption(b"secret")
    )
    assert read_trust_store(key_store(packed, "PKCS12", "secret")) == ROOT.certificate_pem
    with pytest.raises(ConfigError, match="the store: has no certificate"):
        read_trust_store(key_store("nothing"))
