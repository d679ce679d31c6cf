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
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

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


@attrs.frozen
class RegistryEndpoint:
    """URLs without credentials, tried in this order, and headers of requests."""

    urls: tuple[str, ...]
    authorization: str | None = attrs.field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> RegistryEndpoint | None:
        """Return the endpoint of settings, None without a URL; raise ConfigError."""
        cls.check_names(settings)
        text = settings.get(URL) or ""
        addresses = [_address(part.strip()) for part in text.split(",") if part.strip()]
        if not addresses:
            if given := [name for name in SETTINGS if settings.get(name)]:
                raise ConfigError(f"{given[0]} needs {URL}, or --schema-registry")
            return None
        user_info, token = settings.get(USER_INFO) or None, settings.get(TOKEN) or None
        user_info = user_info or next((info for _, info in addresses if info), None)
        if user_info and token:
            raise ConfigError(f"give {USER_INFO} or {TOKEN}: a request has one kind of credentials")
        if user_info and ":" not in user_info:
            raise ConfigError(f"{USER_INFO}: expected user:password")
        authorization = f"Bearer {token}" if token else None
        if user_info:
            authorization = f"Basic {b64encode(user_info.encode()).decode()}"
        if authorization is not None and not authorization.isprintable():
            raise ConfigError(f"{TOKEN}: it has a control character")
        urls = tuple(url for url, _ in addresses)
        return cls(urls, authorization, *(settings.get(name) or None for name in (CA, CERTIFICATE, KEY)))

    @staticmethod
    def check_names(settings: Iterable[str]) -> None:
        """Raise ConfigError for a name of a registry's setting that there is not."""
        if unknown := [name for name in settings if name.startswith(_PREFIX) and name not in SETTINGS]:
            raise ConfigError(f"{unknown[0]} is no setting: those of a registry are {', '.join(SETTINGS)}")

    @property
    def where(self) -> str:
        return self.urls[0]

    def headers(self) -> dict[str, str]:
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        return headers if self.authorization is None else {**headers, "Authorization": self.authorization}

    def tls_context(self) -> ssl.SSLContext:
        """Return what checks the registry's certificate; raise ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the files of {CA}, {CERTIFICATE} and {KEY} cannot be used: {error}") from error
        return context


def _address(text: str) -> tuple[str, str | None]:
    """Return a URL without credentials, and these."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        port = parts.port
    except ValueError:
        is_usable, port, parts = False, None, urlsplit("")
    if not is_usable or not text.isprintable() or " " in text:
        raise ConfigError(f"{URL}: {_hidden(text)} is no address: expected http://HOST:PORT or https://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    place = host if port is None else f"{host}:{port}"
    url = urlunsplit(SplitResult(parts.scheme, place, parts.path.rstrip("/"), "", ""))
    if parts.username is None:
        return url, None
    return url, f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def _hidden(text: str) -> str:
    """Return an address without its password."""
    before, _, behind = text.rpartition("@")
    return f"...@{behind}" if before else text
