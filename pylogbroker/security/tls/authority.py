"""A certificate authority for trying TLS out: keys and certificates as PEM.

    authority = Authority.create("pylogbroker test", days=365)
    broker = authority.issue("broker", hosts=["localhost", "127.0.0.1"], days=365)

Keys are of the curve P-256, which every client knows and which makes handshakes cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pylogbroker.errors import ConfigError

_CLOCK_SKEW: Final = timedelta(hours=1)
_KEY_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@attrs.frozen
class Identity:
    """A certificate and its private key."""

    certificate: x509.Certificate
    _key: EllipticCurvePrivateKey = attrs.field(repr=False)

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """Return the key as PKCS#8, encrypted if there is a password."""
        encryption: KeySerializationEncryption = NoEncryption()
        if password:
            encryption = BestAvailableEncryption(password.encode())
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pem(self, password: str | None = None) -> str:
        """Return a key store: key and certificate."""
        return self.key_pem(password) + self.certificate_pem


@attrs.frozen
class Authority:
    identity: Identity

    @classmethod
    def create(cls, name: str, days: float) -> Authority:
        key = generate_private_key(SECP256R1())
        builder = (
            _builder(_common_name(name), key, _common_name(name), days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        )
        return cls(Identity(builder.sign(key, SHA256()), key))

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Authority:
        """Return the authority of a certificate and its key, both PEM; raise ConfigError."""
        try:
            loaded = load_pem_private_key(key, None)
            issuer = x509.load_pem_x509_certificate(certificate)
        except (ValueError, TypeError):
            raise ConfigError("the certificate of the authority, or its key, cannot be read") from None
        if not isinstance(loaded, EllipticCurvePrivateKey) or loaded.public_key() != issuer.public_key():
            raise ConfigError("the key of the authority does not fit its certificate")
        return cls(Identity(issuer, loaded))

    def issue(self, name: str | x509.Name, hosts: Sequence[str] = (), days: float = 365) -> Identity:
        """Return a certificate for a broker, named by its hosts, or a client; with negative `days` it has expired."""
        key, own = generate_private_key(SECP256R1()), self.identity
        subject = _common_name(name) if isinstance(name, str) else name
        issuer_key = own._key.public_key()
        builder = (
            _builder(subject, key, own.certificate.subject, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature", "key_agreement"), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        return Identity(builder.sign(own._key, SHA256()), key)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, key: EllipticCurvePrivateKey, issuer: x509.Name, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*names: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in names for name in _KEY_USAGES})


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
