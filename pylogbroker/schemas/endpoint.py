"""Endpoint of a schema registry: addresses and credentials, from settings named like those of Confluent's clients.

schema.registry.url                         http://registry:8081, several separated by commas
schema.registry.basic.auth.user.info        user:password
schema.registry.bearer.auth.token           token
schema.registry.ssl.ca.location             certificates that sign the registry's, by default the system's
schema.registry.ssl.certificate.location    own certificate
schema.registry.ssl.key.location            its key
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import attrs

from pylogbroker.errors import ConfigError

URL: Final = "schema.registry.url"
USER_INFO: Final = "schema.registry.basic.auth.user.info"
TOKEN: Final = "schema.registry.bearer.auth.token"
CA: Final = "schema.registry.ssl.ca.location"
CERTIFICATE: Final = "schema.registry.ssl.certificate.location"
KEY: Final = "schema.registry.ssl.key.location"
_PREFIX: Final = "schema.registry."
SETTINGS: Final = (URL, USER_INFO, TOKEN, CA, CERTIFICATE, KEY)
SECRETS: Final = (USER_INFO, TOKEN)
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
SECONDS: Final = 10.0
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~"


@attrs.frozen
class RegistryAddress:
    """URL without credentials, and the header Authorization of its requests."""

    url: str
    authorization: str | None = attrs.field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        return headers if self.authorization is None else {**headers, "Authorization": self.authorization}


@attrs.frozen
class RegistryEndpoint:
    """Addresses, tried in this order. Credentials in a URL are for that one alone, those of settings for the others."""

    addresses: tuple[RegistryAddress, ...]
    ca: str | None = None
    certificate: str | None = None
    key: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> RegistryEndpoint | None:
        """Return the endpoint of settings, None without a URL; raise ConfigError."""
        cls.check_names(settings)
        text = settings.get(URL) or ""
        urls = [_address(part.strip()) for part in text.split(",") if part.strip()]
        if not urls:
            if given := [name for name in SETTINGS if settings.get(name)]:
                raise ConfigError(f"{given[0]} needs {URL}, or --schema-registry")
            return None
        user_info, token = settings.get(USER_INFO) or None, settings.get(TOKEN) or None
        if token and (user_info or any(own for _, own in urls)):
            raise ConfigError(f"give {USER_INFO} or {TOKEN}: a request has one kind of credentials")
        common = _basic(user_info, USER_INFO) if user_info else _bearer(token) if token else None
        addresses = tuple(RegistryAddress(url, _basic(own, URL) if own else common) for url, own in urls)
        return cls(addresses, *(settings.get(name) or None for name in (CA, CERTIFICATE, KEY)))

    @staticmethod
    def check_names(settings: Iterable[str]) -> None:
        """Raise ConfigError for a name of a registry's setting that there is not."""
        if unknown := [name for name in settings if name.startswith(_PREFIX) and name not in SETTINGS]:
            raise ConfigError(f"{unknown[0]} is no setting: those of a registry are {', '.join(SETTINGS)}")

    @property
    def where(self) -> str:
        return self.addresses[0].url

    def tls_context(self) -> ssl.SSLContext:
        """Return what checks the registry's certificate; raise ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the files of {CA}, {CERTIFICATE} and {KEY} cannot be used: {error}") from error
        return context


def _basic(user_info: str, setting: str) -> str:
    if ":" not in user_info:
        raise ConfigError(f"{setting}: expected user:password")
    try:
        return f"Basic {b64encode(user_info.encode()).decode()}"
    except UnicodeEncodeError as error:
        raise ConfigError(f"{setting}: it is not UTF-8") from error


def _bearer(token: str) -> str:
    if not token.isprintable():
        raise ConfigError(f"{TOKEN}: it has a control character")
    if not token.isascii() or " " in token:
        raise ConfigError(f"{TOKEN}: expected ASCII characters without spaces")
    return f"Bearer {token}"


def _address(text: str) -> tuple[str, str | None]:
    """Return a URL without credentials, and these; what is not ASCII is encoded as URLs need it."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        port, host = parts.port, parts.hostname or ""
        host = f"[{host}]" if ":" in host else host.encode("idna").decode()
        path = quote(parts.path.rstrip("/"), safe=_PATH_SAFE)
    except ValueError:  # UnicodeError among them
        is_usable, port, parts, host, path = False, None, urlsplit(""), "", ""
    if not is_usable or not text.isprintable() or " " in text:
        raise ConfigError(f"{URL}: {_hidden(text)} is no address: expected http://HOST:PORT or https://HOST:PORT")
    place = host if port is None else f"{host}:{port}"
    url = urlunsplit(SplitResult(parts.scheme, place, path, "", ""))
    if parts.username is None:
        return url, None
    return url, f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def _hidden(text: str) -> str:
    """Return an address without its password."""
    before, _, behind = text.rpartition("@")
    return f"...@{behind}" if before else text
