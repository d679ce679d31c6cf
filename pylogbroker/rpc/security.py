"""Security of a client's connections, from its settings: `security.protocol` and `ssl.*`."""

from __future__ import annotations

from typing import Final

from pylogbroker.config import Values
from pylogbroker.config.listeners import PROTOCOLS
from pylogbroker.security.tls.engine import MakeEngine

_PROTOCOL: Final = "security.protocol"


def security_protocol(settings: Values) -> str:
    """Return the name of the protocol, in capitals."""
    return settings.text(_PROTOCOL).upper()


def make_engine_of(settings: Values) -> MakeEngine | None:
    """Return the maker of TLS engines, None without TLS; raise ConfigError. Reads files."""
    if not PROTOCOLS[security_protocol(settings)].has_tls:
        return None
    from pylogbroker.security.tls.contexts import ClientTls
    from pylogbroker.security.tls.settings import TlsSettings

    return ClientTls.of(TlsSettings.of_client(settings)).engine
