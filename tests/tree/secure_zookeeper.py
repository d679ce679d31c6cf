"""A real ZooKeeper with a port for TLS, which asks clients for certificates, and one for SASL without TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from pylogbroker.tree.zookeeper_options import ZooKeeperTls
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper

CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
    "-keyout key.pem -out cert.pem -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
)
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_broker="secret"; };\n'


@attrs.frozen
class SecureZooKeeper:
    """Ports with TLS and without, and PEM files: the certificate, and the certificate with its key."""

    plain: str
    tls_port: int
    certificate: str
    both: str

    @property
    def tls(self) -> ZooKeeperTls:
        return ZooKeeperTls(authorities=self.certificate, certificate=self.both)

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Settings of a broker that connects by TLS."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": self.both,
            "zookeeper.ssl.keystore.type": "PEM",
            "zookeeper.ssl.truststore.location": self.certificate,
            "zookeeper.ssl.truststore.type": "PEM",
        }


@contextmanager
def secure_zookeeper(directory: Path) -> Iterator[SecureZooKeeper]:
    subprocess.run(CERTIFICATE.split(), cwd=directory, check=True, capture_output=True)
    both = directory / "both.pem"
    both.write_text((directory / "cert.pem").read_text() + (directory / "key.pem").read_text())
    (directory / "jaas.conf").write_text(JAAS)
    [port] = free_ports(1)
    login = [f"-Djava.security.auth.login.config={directory}/jaas.conf"]
    with ZooKeeper(directory / "server", settings=_settings(port, directory), java_options=login) as server:
        yield SecureZooKeeper(server.address, port, str(directory / "cert.pem"), str(both))


def _settings(port: int, directory: Path) -> dict[str, object]:
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": directory / "both.pem",
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": directory / "cert.pem",
        "ssl.trustStore.type": "PEM",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
