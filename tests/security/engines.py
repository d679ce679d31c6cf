"""Two TLS engines with no network between them: what one sends, the other is fed."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import attrs

from pylogbroker.security.tls.contexts import client_context, server_context
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed
from pylogbroker.security.tls.settings import TlsSettings
from tests.support.certificates import HOSTS, authority, identity, tls_settings


def with_key(owner: str = "broker", client_auth: str = "none", **given: Any) -> TlsSettings:
    """Settings of a side that has a certificate, all PEM in memory."""
    hosts = HOSTS if owner == "broker" else ()
    return presenting(identity(owner, hosts).pem(), client_auth, **given)


def presenting(pem: str, client_auth: str = "none", **given: Any) -> TlsSettings:
    key, _, chain = pem.partition("-----BEGIN CERTIFICATE")
    return tls_settings(
        client_auth,
        ssl_keystore_type="PEM",
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain="-----BEGIN CERTIFICATE" + chain,
        **{**trusting(), **given},
    )


def trusting(name: str = "authority") -> dict[str, str]:
    return {
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": authority(name).identity.certificate_pem,
    }


@attrs.define(eq=False)
class EnginePair:
    server: TlsEngine
    client: TlsEngine

    @classmethod
    def of(
        cls, server: TlsSettings | ssl.SSLContext, client: TlsSettings | ssl.SSLContext, host: str = "localhost"
    ) -> EnginePair:
        on_server = server_context(server) if isinstance(server, TlsSettings) else server
        on_client = client_context(client) if isinstance(client, TlsSettings) else client
        return cls(TlsEngine(on_server, is_server=True), TlsEngine(on_client, is_server=False, host=host))

    def shake_hands(self, change: Callable[[bytes], bytes] = bytes) -> list[str]:
        """Exchange messages until there are none; return the failures, the server's first."""
        failures: dict[bool, str] = {}

        def attempt(is_server: bool, step: Callable[[], object]) -> None:
            try:
                step()
            except TlsFailed as failure:
                failures[is_server] = str(failure)

        attempt(False, self.client.start)
        while (sent := self.client.take_output()) or (answered := self.server.take_output()):
            if sent:
                attempt(True, lambda: self.server.feed(change(sent)))
            else:
                attempt(False, lambda: self.client.feed(answered))
                attempt(False, self.client.read)
        return [failures[is_server] for is_server in (True, False) if is_server in failures]
