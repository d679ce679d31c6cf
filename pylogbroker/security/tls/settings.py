"""Kafka's settings `ssl.*` as one value, for a listener or a client."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.security.tls import ciphers
from pylogbroker.security.tls.ciphers import CipherSuites
from pylogbroker.security.tls.stores import PEM

NONE: Final = "none"
REQUIRED: Final = "required"

_CA: Final = "ssl.ca.location"
_CA_TEXT: Final = "ssl.ca.pem"
_CERTIFICATE: Final = "ssl.certificate.location"
_CERTIFICATE_TEXT: Final = "ssl.certificate.pem"
_KEY: Final = "ssl.key.location"
_KEY_TEXT: Final = "ssl.key.pem"
_VERIFICATION: Final = "enable.ssl.certificate.verification"
TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"


@attrs.frozen
class StoreSettings:
    """A store in files or in a setting's text; `where` names it in errors."""

    where: str
    type: str
    paths: tuple[str, ...]
    text: str | None = attrs.field(default=None, repr=False)
    password: str | None = attrs.field(default=None, repr=False)

    def read(self) -> bytes:
        """Return the content; raise ConfigError. Blocks."""
        if self.text is not None:
            return self.text.encode()
        parts = []
        for path in self.paths:
            try:
                parts.append(Path(path).read_bytes())
            except OSError as error:
                where = self.where if path in self.where else f"{self.where}: {path}"
                raise ConfigError(f"{where}: {error.strerror or error}") from None
        return b"\n".join(parts)


@attrs.frozen
class TlsSettings:
    key_store: StoreSettings | None
    trust_store: StoreSettings | None
    client_auth: str
    versions: tuple[str, ...]
    suites: CipherSuites | None  # None: OpenSSL's default
    checks_host: bool
    checks_certificate: bool = True  # of a broker, by a client

    @classmethod
    def of(cls, values: Values, client_auth: str = NONE) -> TlsSettings:
        """Return the settings; raise ConfigError if they contradict each other."""
        names = values.texts("ssl.cipher.suites")
        suites = ciphers.choose(names) if names else None
        return cls(
            key_store=_key_store(values),
            trust_store=_trust_store(values),
            client_auth=client_auth,
            versions=_versions(values.texts("ssl.enabled.protocols"), suites),
            suites=suites,
            checks_host=_checks_host(values.optional_text("ssl.endpoint.identification.algorithm")),
        )

    @classmethod
    def of_client(cls, values: Values) -> TlsSettings:
        """Return a client's settings, which may name or have PEM as librdkafka's do; raise ConfigError."""
        settings = cls.of(values)
        trust_store = _pem_trust_store(values)
        if trust_store is not None:
            if settings.trust_store is not None:
                raise ConfigError(f"{trust_store[0]}: a trust store is set, too; remove one of them")
            settings = attrs.evolve(settings, trust_store=trust_store[1])
        key_store = _pem_key_store(values)
        if key_store is not None:
            if settings.key_store is not None:
                raise ConfigError(f"{key_store.where}: a key store is set, too; remove one of them")
            settings = attrs.evolve(settings, key_store=key_store)
        if not values.boolean(_VERIFICATION):
            settings = attrs.evolve(settings, checks_host=False, checks_certificate=False)
        return settings

    @property
    def paths(self) -> tuple[str, ...]:
        """Files of the stores."""
        return tuple(path for store in (self.key_store, self.trust_store) if store is not None for path in store.paths)


def _pem_trust_store(values: Values) -> tuple[str, StoreSettings] | None:
    """Return the setting with the trust store in librdkafka's way, and the store."""
    path, text = values.optional_text(_CA), values.optional_text(_CA_TEXT)
    if path and text:
        raise ConfigError(f"{_CA_TEXT}: {_CA} is set, too; remove one of them")
    if path:
        return _CA, StoreSettings(f"{_CA}: {path}", PEM, (path,))
    return (_CA_TEXT, StoreSettings(_CA_TEXT, PEM, (), text)) if text else None


def _pem_key_store(values: Values) -> StoreSettings | None:
    """Return the key store in librdkafka's way: both as files, or both as text."""
    password = values.optional_text("ssl.key.password")
    stores = []
    for names, expected in (((_CERTIFICATE, _KEY), "a file"), ((_CERTIFICATE_TEXT, _KEY_TEXT), "PEM")):
        certificate, key = (values.optional_text(name) for name in names)
        if not (certificate or key):
            continue
        if not (certificate and key):
            missing = names[1] if certificate else names[0]
            raise ConfigError(f"{missing}: expected {expected}, because the other one is set")
        if names[0] == _CERTIFICATE:
            stores.append(StoreSettings(_CERTIFICATE, PEM, tuple(dict.fromkeys((key, certificate))), password=password))
        else:
            stores.append(StoreSettings(_CERTIFICATE_TEXT, PEM, (), f"{key}\n{certificate}", password))
    if len(stores) > 1:
        raise ConfigError(f"{_CERTIFICATE_TEXT}: {_CERTIFICATE} is set, too; remove one of them")
    return stores[0] if stores else None


def _key_store(values: Values) -> StoreSettings | None:
    location, kind = values.optional_text("ssl.keystore.location"), values.text("ssl.keystore.type").upper()
    key, chain = values.optional_text("ssl.keystore.key"), values.optional_text("ssl.keystore.certificate.chain")
    store_password = values.optional_text("ssl.keystore.password")
    key_password = values.optional_text("ssl.key.password")
    if kind == PEM and store_password:
        raise ConfigError("ssl.keystore.password: PEM files have none; set ssl.key.password if the key has one")
    if key or chain:
        _check_inline("ssl.keystore.key", kind, location)
        if not (key and chain):
            missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
            raise ConfigError(f"{missing}: expected a value, because the other half of the key store is set")
        return StoreSettings("ssl.keystore.key", kind, (), f"{key}\n{chain}", key_password)
    if not location:
        return None
    password = key_password if kind == PEM else store_password
    return StoreSettings(f"ssl.keystore.location: {location}", kind, (location,), password=password)


def _trust_store(values: Values) -> StoreSettings | None:
    location, kind = values.optional_text("ssl.truststore.location"), values.text("ssl.truststore.type").upper()
    text, password = (
        values.optional_text("ssl.truststore.certificates"),
        values.optional_text("ssl.truststore.password"),
    )
    if kind == PEM and password:
        raise ConfigError("ssl.truststore.password: PEM files have none; remove it")
    if text:
        _check_inline("ssl.truststore.certificates", kind, location)
        return StoreSettings("ssl.truststore.certificates", kind, (), text)
    if not location:
        return None
    return StoreSettings(f"ssl.truststore.location: {location}", kind, (location,), password=password)


def _check_inline(name: str, kind: str, location: str | None) -> None:
    store = name.rpartition(".")[0]
    if kind != PEM:
        raise ConfigError(f"{name}: is PEM, but {store}.type is {kind}; set it to PEM")
    if location:
        raise ConfigError(f"{name}: {store}.location is set, too; remove one of them")


def _versions(enabled: tuple[str, ...], suites: CipherSuites | None) -> tuple[str, ...]:
    offered = [TLS_1_2] if suites is None or suites.tls_1_2 else []
    offered += [TLS_1_3] if suites is None or suites.has_tls_1_3 else []
    common = tuple(version for version in offered if version in enabled)
    if not common:
        raise ConfigError("ssl.cipher.suites: has no suite of the versions of ssl.enabled.protocols")
    return common


def _checks_host(algorithm: str | None) -> bool:
    if (algorithm or "").lower() not in ("", "https"):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm: {algorithm!r} is not accepted; expected https, or empty"
        )
    return bool(algorithm)
