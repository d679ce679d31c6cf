"""Key stores and trust stores, as bytes: PEM (KIP-651) and PKCS12.

| store         | PEM                                             | PKCS12                                       |
|---------------|-------------------------------------------------|----------------------------------------------|
| key store     | one private key, its certificate and the chain, | the same, in one file, which has a password  |
|               | in any order; the key may have a password       |                                              |
| trust store   | certificates of authorities, all trusted        | the same, with a password or without         |

JKS is Java's own format: the error says how to convert it. As Java does, a file of type JKS may be PKCS12.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import attrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from pylogbroker.errors import ConfigError

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
TYPES: Final = (PEM, PKCS12, JKS)

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEY: Final = b"PRIVATE KEY"
_CERTIFICATES: Final = (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE")
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"


@attrs.frozen
class KeyStore:
    """A private key and its certificate with the chain, the certificate first: PEM without a password."""

    key: bytes = attrs.field(repr=False)
    chain: bytes = attrs.field(repr=False)


@attrs.frozen
class StoreContent:
    """Bytes of a store, with the words for errors: `where` is a setting, or a setting and a path."""

    where: str
    type: str
    content: bytes = attrs.field(repr=False)
    password: str | None = attrs.field(default=None, repr=False)


def read_key_store(store: StoreContent, now: datetime | None = None) -> KeyStore:
    """Return the key and its certificates; raise ConfigError if they are unusable, or expired."""
    if _form_of(store) == PEM:
        key, certificates = _key_of_pem(store), _certificates_of_pem(store)
    else:
        key, certificates = _key_of_pkcs12(store)
    own = next(
        (certificate for certificate in certificates if _public(certificate.public_key()) == _public(key.public_key())),
        None,
    )
    if own is None:
        raise ConfigError(f"{store.where}: the private key does not fit the certificate, whose key is another one")
    _check_dates(store.where, own, now or datetime.now(UTC))
    chain = [own, *(certificate for certificate in certificates if certificate is not own)]
    return KeyStore(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain),
    )


def read_trust_store(store: StoreContent) -> str:
    """Return the certificates of all trusted authorities as PEM; raise ConfigError."""
    if _form_of(store) == PEM:
        certificates: Sequence[x509.Certificate] = _certificates_of_pem(store)
    else:
        content = _pkcs12(store)
        entries = (content.cert, *content.additional_certs)
        certificates = [entry.certificate for entry in entries if entry is not None]
    if not certificates:
        raise ConfigError(f"{store.where}: has no certificate")
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates).decode()


def _form_of(store: StoreContent) -> str:
    """Return PEM or PKCS12; raise ConfigError for content that is not of its type."""
    start = store.content.lstrip()[:4]
    is_der = store.content.startswith(_DER_SEQUENCE)
    if start == _JKS_MAGIC:
        raise ConfigError(
            f"{store.where}: is a JKS store, which only Java reads; convert it with keytool -importkeystore "
            "-srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12, and set the type PKCS12"
        )
    if store.type == PEM and not is_der:
        return PEM
    if store.type == PEM:
        raise ConfigError(f"{store.where}: is not PEM, but probably PKCS12; set the type PKCS12")
    if not is_der:
        hint = "PEM; set the type PEM" if b"-----BEGIN " in store.content else "of no known type"
        raise ConfigError(f"{store.where}: is not {store.type}, but {hint}")
    return PKCS12


def _key_of_pem(store: StoreContent) -> PrivateKeyTypes:
    blocks = [match[0] for match in _BLOCK.finditer(store.content) if match[1].endswith(_KEY)]
    if len(blocks) != 1:
        raise ConfigError(f"{store.where}: has {len(blocks)} private keys; expected one")
    password = store.password.encode() if store.password else None
    try:
        return load_pem_private_key(blocks[0], password)
    except TypeError:
        missing = "needs ssl.key.password" if password is None else "has no password; remove ssl.key.password"
        raise ConfigError(f"{store.where}: the private key {missing}") from None
    except (ValueError, UnsupportedAlgorithm):
        hint = ", or ssl.key.password is wrong" if password else ""
        raise ConfigError(f"{store.where}: the private key cannot be read: it is damaged{hint}") from None


def _certificates_of_pem(store: StoreContent) -> list[x509.Certificate]:
    blocks = [match[0] for match in _BLOCK.finditer(store.content) if match[1] in _CERTIFICATES]
    if not blocks:
        raise ConfigError(f"{store.where}: has no certificate")
    try:
        return [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError:
        raise ConfigError(f"{store.where}: a certificate is damaged") from None


def _key_of_pkcs12(store: StoreContent) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    content = _pkcs12(store)
    if content.key is None or content.cert is None:
        raise ConfigError(f"{store.where}: has no private key with a certificate")
    return content.key, [content.cert.certificate, *(entry.certificate for entry in content.additional_certs)]


def _pkcs12(store: StoreContent) -> pkcs12.PKCS12KeyAndCertificates:
    password = store.password.encode() if store.password else None
    try:
        return pkcs12.load_pkcs12(store.content, password)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{store.where}: cannot be read: the password is wrong, or the file is damaged") from None


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return encoded


def _check_dates(where: str, certificate: x509.Certificate, now: datetime) -> None:
    if certificate.not_valid_after_utc < now:
        raise ConfigError(f"{where}: the certificate has expired, on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}")
    if certificate.not_valid_before_utc > now:
        raise ConfigError(f"{where}: the certificate is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}")
