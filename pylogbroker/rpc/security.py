"""Security of connections to brokers: TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.config import Values
from pylogbroker.config.listeners import PROTOCOLS
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.interfaces import ITokenProvider
    from pylogbroker.security.sasl import credentials as sasl_credentials
    from pylogbroker.security.sasl.credentials import Credentials
    from pylogbroker.security.tls import contexts as tls_contexts
    from pylogbroker.security.tls import settings as tls_settings
    from pylogbroker.security.tls.engine import MakeEngine
else:
    sasl_credentials = on_first_use("pylogbroker.security.sasl.credentials")
    tls_contexts = on_first_use("pylogbroker.security.tls.contexts")
    tls_settings = on_first_use("pylogbroker.security.tls.settings")

_PROTOCOL: Final = "security.protocol"


@attrs.frozen
class SecurityNames:
    """Names of the settings that secure a connection, for errors: a client's, unless others are given."""

    protocol: str = _PROTOCOL
    mechanism: str = "sasl.mechanism"


OF_CLIENTS: Final = SecurityNames()


@attrs.frozen(eq=False, repr=False)
class ConnectionSecurity:
    """TLS of connections if there is a maker of engines, and SASL if there are credentials."""

    make_engine: MakeEngine | None = attrs.field(default=None, repr=False)
    credentials: Credentials | None = None
    names: SecurityNames = OF_CLIENTS

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
    return sasl_credentials.Credentials.of_client(settings, provider)


def _make_engine_of(settings: Values) -> MakeEngine:
    return tls_contexts.ClientTls.of(tls_settings.TlsSettings.of_client(settings)).engine
