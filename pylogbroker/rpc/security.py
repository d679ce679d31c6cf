"""Security of connections to brokers: TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.config import Values
from pylogbroker.config.listeners import PROTOCOLS
from pylogbroker.interfaces import ITokenProvider
from pylogbroker.security.tls.engine import MakeEngine

if TYPE_CHECKING:
    from pylogbroker.security.sasl.credentials import Credentials

_PROTOCOL: Final = "security.protocol"


@attrs.frozen(eq=False)
class ConnectionSecurity:
    """TLS of connections if there is a maker of engines, and SASL if there are credentials."""

    make_engine: MakeEngine | None = attrs.field(default=None, repr=False)
    credentials: Credentials | None = None

    @classmethod
    def of(cls, settings: Values, provider: ITokenProvider | None = None) -> ConnectionSecurity:
        """Return the security of a client's connections; raise ConfigError. Reads files of TLS."""
        protocol = PROTOCOLS[security_protocol(settings)]
        credentials = _credentials_of(settings, provider) if protocol.has_sasl else None
        make_engine = _make_engine_of(settings) if protocol.has_tls else None
        return cls(make_engine, credentials) if make_engine or credentials else OPEN


OPEN: Final = ConnectionSecurity()
"""Neither TLS nor SASL."""


def security_protocol(settings: Values) -> str:
    """Return the name of the protocol, in capitals."""
    return settings.text(_PROTOCOL).upper()


def _credentials_of(settings: Values, provider: ITokenProvider | None) -> Credentials:
    from pylogbroker.security.sasl.credentials import Credentials

    return Credentials.of_client(settings, provider)


def _make_engine_of(settings: Values) -> MakeEngine:
    from pylogbroker.security.tls.contexts import ClientTls
    from pylogbroker.security.tls.settings import TlsSettings

    return ClientTls.of(TlsSettings.of_client(settings)).engine
