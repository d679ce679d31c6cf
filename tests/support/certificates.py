"""Certificates for tests: one authority for all of them, and files of what it issues."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pylogbroker.config import Values
from pylogbroker.config.security_settings import TLS_DEFAULTS
from pylogbroker.security.tls.authority import Authority, Identity
from pylogbroker.security.tls.settings import TlsSettings

HOSTS = ("localhost", "127.0.0.1")


def authority(name: str = "authority") -> Authority:
    """An authority; one for each name and process."""
    return _authority(name)


@cache
def _authority(name: str) -> Authority:
    return Authority.create(name, days=10)


def identity(name: str, hosts: tuple[str, ...] = (), days: float = 5, issuer: str = "authority") -> Identity:
    """A certificate and its key, the same for the same arguments; expired if `days` is negative."""
    return _identity(name, hosts, days, issuer)


@cache
def _identity(name: str, hosts: tuple[str, ...], days: float, issuer: str) -> Identity:
    return authority(issuer).issue(name, hosts, days)


def tls_settings(client_auth: str = "none", **given: Any) -> TlsSettings:
    """TlsSettings of Kafka's settings, with underscores for dots."""
    values = {name.replace("_", "."): value for name, value in given.items()}
    return TlsSettings.of(Values({**TLS_DEFAULTS, **values}), client_auth)


class Certificates:
    """Files below `directory`, and the settings that name them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def file(self, name: str, text: str) -> str:
        self._directory.mkdir(parents=True, exist_ok=True)
        path, fresh = self._directory / name, self._directory / f"{name}.new"
        fresh.write_text(text)
        fresh.rename(path)  # a broker that looks at the file meanwhile finds all of it
        return str(path)

    @cached_property
    def authority_file(self) -> str:
        return self.file("authority.pem", authority().identity.certificate_pem)

    @cached_property
    def trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority_file}

    @cached_property
    def broker(self) -> dict[str, str]:
        return self.with_key("broker", identity("broker", HOSTS))

    def client(self, name: str, days: float = 5, issuer: str = "authority") -> dict[str, str]:
        return self.with_key(name, identity(name, (), days, issuer))

    def with_key(self, name: str, owner: Identity) -> dict[str, str]:
        """Settings of a key store with this certificate, and of the trust store."""
        path = self.file(f"{name}.pem", owner.pem())
        return {**self.trust, "ssl.keystore.type": "PEM", "ssl.keystore.location": path}
