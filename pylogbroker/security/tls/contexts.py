"""OpenSSL contexts from settings. All functions read files, and block.

A key that came from PKCS12, a setting or an encrypted file is passed to OpenSSL in memory: on Linux, nothing is written
to disk.
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.settings import NONE, REQUIRED, TLS_1_2, TLS_1_3, StoreSettings, TlsSettings
from pylogbroker.security.tls.stores import StoreContent, read_key_store, read_trust_store
from pylogbroker.system import secret_file

_VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}


@attrs.frozen(eq=False, repr=False)
class ClientTls:
    """Client's side of TLS; makes an engine for each connection."""

    _context: ssl.SSLContext

    @classmethod
    def of(cls, settings: TlsSettings) -> ClientTls:
        """Read the stores; raise ConfigError. Blocks."""
        return cls(client_context(settings))

    def engine(self, host: str) -> TlsEngine:
        return TlsEngine(self._context, is_server=False, host=host)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener; raise ConfigError."""
    if settings.key_store is None:
        raise ConfigError("ssl.keystore.location: a listener with TLS needs a key store; set it, or ssl.keystore.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # no session outlives its context, so that a certificate is checked on each connection
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    _set_common(context, settings)
    if settings.client_auth != NONE:
        if settings.trust_store is None:
            raise ConfigError(
                f"ssl.truststore.location: ssl.client.auth={settings.client_auth} needs the authorities to trust"
            )
        context.verify_mode = ssl.CERT_REQUIRED if settings.client_auth == REQUIRED else ssl.CERT_OPTIONAL
        _trust(context, settings.trust_store)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client, which trusts the system's authorities by default; raise ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host
    if not settings.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    _set_common(context, settings)
    if settings.trust_store is None:
        context.load_default_certs()
    else:
        _trust(context, settings.trust_store)
    return context


def _set_common(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[version] for version in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, a trusted certificate need not be a root
    if settings.suites is not None and settings.suites.tls_1_2:
        try:
            context.set_ciphers(settings.suites.tls_1_2)
        except ssl.SSLError:
            raise ConfigError("ssl.cipher.suites: OpenSSL has none of these suites") from None
    if settings.key_store is not None:
        _present(context, settings.key_store)


def _present(context: ssl.SSLContext, store: StoreSettings) -> None:
    pair = read_key_store(_content(store))
    try:
        with secret_file(pair.key + pair.chain) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise ConfigError(f"{store.where}: OpenSSL does not accept the key and its certificates: {reason}") from None


def _trust(context: ssl.SSLContext, store: StoreSettings) -> None:
    context.load_verify_locations(cadata=read_trust_store(_content(store)))


def _content(store: StoreSettings) -> StoreContent:
    return StoreContent(store.where, store.type, store.read(), store.password)
