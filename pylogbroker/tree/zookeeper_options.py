"""Servers of ZooKeeper and options of the connection: Kafka's settings, in kazoo's terms.

| setting of Kafka                                   | here                                                           |
|----------------------------------------------------|----------------------------------------------------------------|
| `zookeeper.connect`                                | `parse_connect`                                                |
| `zookeeper.session.timeout.ms`                     | `session_timeout`, in seconds                                  |
| `zookeeper.connection.timeout.ms`                  | `connection_timeout`, in seconds; default: the session's       |
| `zookeeper.max.in.flight.requests`                 | `in_flight_max`                                                |
| `zookeeper.set.acl`                                | `default_acl`, e.g. `metadata.zk_acl.secure_acl`               |
| `zookeeper.ssl.*`                                  | `parse_tls`                                                    |
| JAAS: `DigestLoginModule` with username, password  | `sasl`, for which kazoo needs pure-sasl                        |
| none: ZooKeeper's scheme `digest`                  | `digest`                                                       |

This module does not import kazoo, so that settings can be checked without it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import OPEN_ACL, Acl, DefaultAcl

DEFAULT_PORT: Final = 2181
_BLANKS: Final = " \t\r\n"
_SERVER: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/@\s]+))(?::(?P<port>[0-9]{1,5}))?")
_EXPECTED: Final = "expected host:port[,host:port...][/chroot], e.g. zk1:2181,zk2:2181/kafka"
_PROTOCOLS: Final = frozenset(("TLS", "TLSv1.2", "TLSv1.3"))
_SESSION_MS_DEFAULT: Final = 18_000
_IN_FLIGHT_DEFAULT: Final = 10
_IN_FLIGHT_MAX: Final = 120
_NOT_IN_KAZOO: Final = {
    "zookeeper.ssl.cipher.suites": "",
    "zookeeper.ssl.enabled.protocols": "",
    "zookeeper.ssl.crl.enable": "false",
    "zookeeper.ssl.ocsp.enable": "false",
}  # with the only value that is accepted, besides none


@attrs.frozen
class ZooKeeperServers:
    """Servers of one ZooKeeper, and the node below which everything lies ("" for the root)."""

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""

    @property
    def hosts(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)

    def __str__(self) -> str:
        return self.hosts + self.chroot


@attrs.frozen
class ZooKeeperTls:
    """Paths of PEM files; None stands for the system's authorities, and for no certificate of the client's own."""

    authorities: str | None = None
    certificate: str | None = None  # with the key
    password: str | None = attrs.field(default=None, repr=False)
    check_hostname: bool = True


@attrs.frozen
class ZooKeeperLogin:
    username: str
    password: str = attrs.field(repr=False)


def open_to_all(path: str) -> Sequence[Acl]:
    return OPEN_ACL


@attrs.frozen
class ZooKeeperOptions:
    """Times in seconds. `in_flight_max` is at most 120: kazoo blocks the calling thread at about 270."""

    session_timeout: float = _SESSION_MS_DEFAULT / 1000
    connection_timeout: float | None = None
    in_flight_max: int = attrs.field(
        default=_IN_FLIGHT_DEFAULT, validator=(attrs.validators.ge(1), attrs.validators.le(_IN_FLIGHT_MAX))
    )
    default_acl: DefaultAcl = open_to_all
    tls: ZooKeeperTls | None = None
    sasl: ZooKeeperLogin | None = None
    digest: ZooKeeperLogin | None = None
    creates_chroot: bool = True  # as brokers do; else a missing one is an error

    @property
    def connection_seconds(self) -> float:
        return self.session_timeout if self.connection_timeout is None else self.connection_timeout


def parse_options(settings: Mapping[str, str | None], secure_acl: DefaultAcl) -> ZooKeeperOptions:
    """Return the options of Kafka's settings, whose numbers are valid; raise ConfigError for what kazoo cannot do.

    `secure_acl` gives the ACLs of `zookeeper.set.acl`. The logins are not settings of Kafka.
    """
    connection_ms = _text(settings, "zookeeper.connection.timeout.ms")
    in_flight = int(_text(settings, "zookeeper.max.in.flight.requests") or _IN_FLIGHT_DEFAULT)
    return ZooKeeperOptions(
        session_timeout=int(_text(settings, "zookeeper.session.timeout.ms") or _SESSION_MS_DEFAULT) / 1000,
        connection_timeout=int(connection_ms) / 1000 if connection_ms else None,
        in_flight_max=min(in_flight, _IN_FLIGHT_MAX),
        default_acl=secure_acl if _is_true(settings, "zookeeper.set.acl") else open_to_all,
        tls=parse_tls(settings),
    )


def parse_connect(text: str) -> ZooKeeperServers:
    """Parse `zookeeper.connect`; raise ConfigError if it is invalid."""
    hosts, slash, chroot = text.strip(_BLANKS).partition("/")
    servers = tuple(_parse_server(text, server.strip()) for server in hosts.split(","))
    names = chroot.rstrip("/").split("/") if chroot else []
    if any(name in ("", ".", "..") or not name.isprintable() for name in names):
        raise ConfigError(f"zookeeper.connect: {text!r} has a bad path {slash + chroot!r}; {_EXPECTED}")
    return ZooKeeperServers(servers, "".join(f"/{name}" for name in names))


def _parse_server(text: str, server: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(server)
    if match is None:
        raise ConfigError(f"zookeeper.connect: {text!r} has a bad server {server!r}; {_EXPECTED}")
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port < 1 << 16:
        raise ConfigError(f"zookeeper.connect: {text!r} has a bad port {port}; {_EXPECTED}")
    return match["ipv6"] or match["host"], port


def parse_tls(settings: Mapping[str, str | None]) -> ZooKeeperTls | None:
    """Return the options of TLS, None without; raise ConfigError for settings that kazoo cannot honour."""
    if not _is_true(settings, "zookeeper.ssl.client.enable"):
        return None
    for name, accepted in _NOT_IN_KAZOO.items():
        if _text(settings, name) not in ("", accepted):
            raise ConfigError(f"{name} is not supported for connections to ZooKeeper: remove it")
    protocol = _text(settings, "zookeeper.ssl.protocol")
    if protocol and protocol not in _PROTOCOLS:
        raise ConfigError(f"zookeeper.ssl.protocol: {protocol!r} is not supported; use one of {sorted(_PROTOCOLS)}")
    algorithm = settings.get("zookeeper.ssl.endpoint.identification.algorithm", "HTTPS")
    if (algorithm or "").upper() not in ("", "HTTPS"):
        raise ConfigError(f"zookeeper.ssl.endpoint.identification.algorithm: {algorithm!r} is not HTTPS or empty")
    certificate = _pem_store(settings, "zookeeper.ssl.keystore.location", "zookeeper.ssl.keystore.type")
    return ZooKeeperTls(
        authorities=_pem_store(settings, "zookeeper.ssl.truststore.location", "zookeeper.ssl.truststore.type"),
        certificate=certificate,
        password=_text(settings, "zookeeper.ssl.keystore.password") or None,
        check_hostname=bool(algorithm),
    )


def check_tls(tls: ZooKeeperTls) -> None:
    """Read the files; raise ConfigError if that fails. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    store, path = "truststore", tls.authorities
    try:
        if tls.authorities is not None:
            context.load_verify_locations(tls.authorities)
        store, path = "keystore", tls.certificate
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, password=tls.password or "")  # without one, OpenSSL asks for it
    except OSError as error:
        reason = "no valid PEM, or password" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"zookeeper.ssl.{store}.location: {path}: {reason}") from error


def _pem_store(settings: Mapping[str, str | None], location_name: str, type_name: str) -> str | None:
    location = _text(settings, location_name)
    if not location:
        return None
    kind = _text(settings, type_name) or location.rpartition(".")[2]
    if kind.upper() != "PEM":
        raise ConfigError(
            f"{location_name}: {location} is not known to be PEM, which alone is supported: convert it "
            f"with openssl, and set {type_name}=PEM"
        )
    return location


def _is_true(settings: Mapping[str, str | None], name: str) -> bool:
    return _text(settings, name).lower() == "true"


def _text(settings: Mapping[str, str | None], name: str) -> str:
    return (settings.get(name) or "").strip()
