"""TLS of one listener, loaded from its settings and files."""

from __future__ import annotations

import ssl

import attrs

from pylogbroker.broker.security.file_state import FileState
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ConfigError
from pylogbroker.security.principals import ANONYMOUS, NoRule, PrincipalMapping
from pylogbroker.security.tls.contexts import ClientTls, server_context
from pylogbroker.security.tls.engine import TlsEngine, check_handshake
from pylogbroker.security.tls.failures import TlsFailed
from pylogbroker.security.tls.names import distinguished_name
from pylogbroker.security.tls.settings import NONE, TlsSettings

_CLIENT_AUTH = "ssl.client.auth"


def _client_of(settings: TlsSettings, server: ssl.SSLContext) -> ClientTls:
    """Return the client's side of a broker; raise ConfigError if brokers with the same stores could not connect."""
    unnamed = ClientTls.of(attrs.evolve(settings, checks_host=False))
    try:
        check_handshake(TlsEngine(server, is_server=True), unnamed.engine("localhost"))
    except TlsFailed as failure:
        raise ConfigError(f"brokers with these stores could not connect to each other: {failure}") from None
    return ClientTls.of(settings)


@attrs.frozen(eq=False, repr=False)
class ListenerTls:
    """Contexts of a listener, as its settings and files were when they were read.

    `client` is for connections to other brokers, on the listener that these use.
    """

    settings: TlsSettings
    client: ClientTls | None
    _server: ssl.SSLContext
    _mapping: PrincipalMapping
    _files: tuple[FileState, ...]

    @classmethod
    def load(cls, config: BrokerConfig, listener: Listener) -> ListenerTls:
        """Read the files; raise ConfigError, which names the listener. Blocks."""
        try:
            return cls._load(config, listener)
        except ConfigError as error:
            raise ConfigError(f"listener {listener.name}: {error}") from None

    @classmethod
    def _load(cls, config: BrokerConfig, listener: Listener) -> ListenerTls:
        values = config.of_listener(listener)
        own_client_auth = config.is_set(listener.prefix + _CLIENT_AUTH)
        is_asked = not listener.security.has_sasl or own_client_auth  # KIP-684
        settings = TlsSettings.of(values, values.ssl_client_auth if is_asked else NONE)
        files = tuple(map(FileState.of, settings.paths))  # before they are read: a later change is noticed
        mapping = PrincipalMapping.parse(values.ssl_principal_mapping_rules)
        server = server_context(settings)
        is_inter_broker = config.in_cluster and listener == config.inter_broker_listener
        client = _client_of(settings, server) if is_inter_broker else None
        return cls(settings, client, server, mapping, files)

    @property
    def is_outdated(self) -> bool:
        """True if a file has changed. Blocks."""
        return any(file != FileState.of(file.path) for file in self._files)

    def engine(self) -> TlsEngine:
        """Return the engine of a new connection from a client."""
        return TlsEngine(self._server, is_server=True)

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client; raise TlsFailed if no rule applies to its name."""
        if certificate is None:
            return ANONYMOUS
        try:
            return self._mapping.principal(distinguished_name(certificate))
        except NoRule as error:
            raise TlsFailed(str(error)) from None
        except ValueError:
            raise TlsFailed("the client's certificate has a name that cannot be read") from None
