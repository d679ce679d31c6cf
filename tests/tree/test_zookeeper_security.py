"""TLS and SASL with a real ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.interfaces import Create
from pylogbroker.metadata.zk_acl import secure_acl
from pylogbroker.tree.zookeeper_options import ZooKeeperLogin, ZooKeeperTls
from tests.peers import available
from tests.support.reactor_run import run
from tests.tree.secure_zookeeper import SecureZooKeeper, secure_zookeeper
from tests.tree.trees import connect, fresh_chroot

LOGIN = ZooKeeperLogin("broker", "secret")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    if not available():
        pytest.skip("needs a JDK and Maven")
    with secure_zookeeper(tmp_path_factory.mktemp("secure")) as server:
        yield server


def test_tls_with_certificates_of_both_sides(secure: SecureZooKeeper) -> None:
    async def work() -> None:
        tree = await connect(f"127.0.0.1:{secure.tls_port}{fresh_chroot()}", tls=secure.tls)
        await tree.commit([Create("/a", b"x")])
        assert (await tree.get("/a")).data == b"x"
        await tree.close()

    run(work)


def test_an_encrypted_key_needs_its_password(secure: SecureZooKeeper, tmp_path: Path) -> None:
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


def test_a_server_that_is_not_trusted(secure: SecureZooKeeper) -> None:
    with pytest.raises(StartupError, match=r"not connected within 5 s \(.*certificate verify failed.*\): check"):
        run(lambda: connect(f"127.0.0.1:{secure.tls_port}", tls=ZooKeeperTls(), connection_timeout=5))


def test_the_name_in_the_certificate_is_checked(secure: SecureZooKeeper) -> None:
    address = f"localhost:{secure.tls_port}{fresh_chroot()}"
    with pytest.raises(StartupError, match=r"not connected within 5 s \(.*Hostname mismatch.*\): check"):
        run(lambda: connect(address, tls=secure.tls, connection_timeout=5))

    async def work() -> None:
        tree = await connect(address, tls=attrs.evolve(secure.tls, check_hostname=False))
        await tree.close()

    run(work)


def test_sasl(secure: SecureZooKeeper) -> None:
    pytest.importorskip("puresasl")

    async def work() -> None:
        tree = await connect(secure.plain + fresh_chroot(), sasl=LOGIN, default_acl=secure_acl)
        await tree.commit([Create("/a")])
        assert [(acl.scheme, acl.id) for acl in await tree.acl("/a")] == [("sasl", "broker"), ("world", "anyone")]
        await tree.close()

    run(work)


def test_a_wrong_password(secure: SecureZooKeeper) -> None:
    pytest.importorskip("puresasl")
    with pytest.raises(StartupError, match="the login was rejected: check user name and password"):
        run(lambda: connect(secure.plain, sasl=ZooKeeperLogin("broker", "wrong")))
