"""TLS and SASL with a real ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from pylogbroker.coordination.zookeeper_options import ZooKeeperLogin, ZooKeeperTls
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.interfaces import Create
from pylogbroker.metadata.zk_acl import secure_acl
from tests.coordination.trees import connect, fresh_chroot
from tests.peers import available
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper
from tests.support.reactor_run import run

CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
    "-keyout key.pem -out cert.pem -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
)
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_broker="secret"; };\n'
LOGIN = ZooKeeperLogin("broker", "secret")


@attrs.frozen
class SecureServer:
    """Ports with TLS and without, and PEM files: the certificate, and the certificate with its key."""

    plain: str
    tls_port: int
    certificate: str
    both: str

    @property
    def tls(self) -> ZooKeeperTls:
        return ZooKeeperTls(authorities=self.certificate, certificate=self.both)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    if not available():
        pytest.skip("needs a JDK and Maven")
    directory = tmp_path_factory.mktemp("secure")
    subprocess.run(CERTIFICATE.split(), cwd=directory, check=True, capture_output=True)
    both = directory / "both.pem"
    both.write_text((directory / "cert.pem").read_text() + (directory / "key.pem").read_text())
    (directory / "jaas.conf").write_text(JAAS)
    [port] = free_ports(1)
    with ZooKeeper(
        directory / "server", settings=_settings(port, directory), java_options=_options(directory)
    ) as server:
        yield SecureServer(server.address, port, str(directory / "cert.pem"), str(both))


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


def _options(directory: Path) -> list[str]:
    return [f"-Djava.security.auth.login.config={directory}/jaas.conf"]


def test_tls_with_certificates_of_both_sides(secure: SecureServer) -> None:
    async def work() -> None:
        tree = await connect(f"127.0.0.1:{secure.tls_port}{fresh_chroot()}", tls=secure.tls)
        await tree.commit([Create("/a", b"x")])
        assert (await tree.get("/a")).data == b"x"
        await tree.close()

    run(work)


def test_an_encrypted_key_needs_its_password(secure: SecureServer, tmp_path: Path) -> None:
    encryption = ["openssl", "pkey", "-in", secure.both, "-aes256", "-passout", "pass:secret"]
    key = subprocess.run(encryption, check=True, capture_output=True, text=True).stdout
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_text(Path(secure.certificate).read_text() + key)
    tls = attrs.evolve(secure.tls, certificate=str(encrypted))
    address = f"127.0.0.1:{secure.tls_port}{fresh_chroot()}"
    with pytest.raises(ConfigError, match=r"keystore\.location: .*encrypted.pem: no valid PEM, or password"):
        run(lambda: connect(address, tls=tls))

    async def work() -> None:
        tree = await connect(address, tls=attrs.evolve(tls, password="secret"))
        await tree.close()

    run(work)


def test_a_server_that_is_not_trusted(secure: SecureServer) -> None:
    with pytest.raises(StartupError, match=r"not connected within 1 s \(.*certificate verify failed.*\): check"):
        run(lambda: connect(f"127.0.0.1:{secure.tls_port}", tls=ZooKeeperTls(), connection_timeout=1))


def test_the_name_in_the_certificate_is_checked(secure: SecureServer) -> None:
    address = f"localhost:{secure.tls_port}{fresh_chroot()}"
    with pytest.raises(StartupError, match=r"not connected within 1 s \(.*Hostname mismatch.*\): check"):
        run(lambda: connect(address, tls=secure.tls, connection_timeout=1))

    async def work() -> None:
        tree = await connect(address, tls=attrs.evolve(secure.tls, check_hostname=False))
        await tree.close()

    run(work)


def test_sasl(secure: SecureServer) -> None:
    pytest.importorskip("puresasl")

    async def work() -> None:
        tree = await connect(secure.plain + fresh_chroot(), sasl=LOGIN, default_acl=secure_acl)
        await tree.commit([Create("/a")])
        assert [(acl.scheme, acl.id) for acl in await tree.acl("/a")] == [("sasl", "broker"), ("world", "anyone")]
        await tree.close()

    run(work)


def test_a_wrong_password(secure: SecureServer) -> None:
    pytest.importorskip("puresasl")
    with pytest.raises(StartupError, match="the login was rejected: check user name and password"):
        run(lambda: connect(secure.plain, sasl=ZooKeeperLogin("broker", "wrong")))
