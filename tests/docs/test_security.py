"""The safe configuration of the page on security: a broker with exactly that, and what its clients can do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.config import properties
from tests.docs.page_programs import ROOT
from tests.peers.processes import free_ports
from tests.support.line_process import LineProcess

SECTION = re.compile(r"^## A safe configuration\n(.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(properties|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADMINS_PASSWORD = "the password of admin"


@attrs.frozen
class Documented:
    """The blocks of the section, with paths below a directory of the test's, and a port of its own."""

    directory: Path
    port: int
    process: LineProcess | None
    blocks: list[tuple[str, str]]

    @classmethod
    def read(cls, directory: Path) -> Documented:
        [section] = SECTION.findall((ROOT / "docs/security.md").read_text())
        [port] = free_ports(1)
        for old, new in (
            ("/etc/pylogbroker", str(directory / "etc")),
            ("/var/lib/pylogbroker", str(directory / "data")),
            ("kafka1.example.org:9093", f"localhost:{port}"),
            ("//:9093", f"//127.0.0.1:{port}"),  # the one change: no other machine reaches the broker
            ("--host kafka1.example.org", "--host localhost"),
            (" admin.properties", f" {directory / 'admin.properties'}"),
        ):
            assert old in section
            section = section.replace(old, new)
        return cls(directory, port, None, BLOCK.findall(section))

    def client(self, name: str, **changes: str) -> Path:
        """Return a file with the settings of the page's client; an empty text removes one."""
        path = self.directory / f"{name}.properties"
        path.write_text(self.blocks[2][1])
        settings = {**properties.read(str(path)), **{key.replace("_", "."): text for key, text in changes.items()}}
        path.write_text("".join(f"{key}={text}\n" for key, text in settings.items() if text))
        return path


def run(command: str, given: str = "") -> str:
    """Run a command of the page, which must succeed."""
    code, output = tried(*command.split()[1:], given=given)
    assert code == 0, f"{command}\n{output}"
    return output


def tried(*arguments: str, given: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments, input=given)
    return done.exit_code, done.output


@pytest.fixture
def documented(tmp_path: Path) -> Iterator[Documented]:
    """Run a broker that was set up and is started as the page says."""
    found = Documented.read(tmp_path)
    assert [kind for kind, _ in found.blocks] == ["properties", "console", "properties", "console"]
    configuration = found.blocks[0][1]
    assert len(configuration.splitlines()) == 10
    certificates, *users, start = (line.removeprefix("$ ") for line in found.blocks[1][1].splitlines())
    run(certificates)
    for command, password in zip(users, (ADMINS_PASSWORD, "secret"), strict=True):
        run(command, password + "\n")
    (tmp_path / "etc/broker.properties").write_text(configuration)
    found.client("admin")
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", *start.split()[1:]]
    with LineProcess(twistd, cwd=tmp_path, forked=True) as process:
        process.expect(rf"listening on SASL_SSL://127\.0\.0\.1:{found.port}")
        yield attrs.evolve(found, process=process)
        process.terminate()
        assert not [line for line in process.lines if "Traceback" in line or ADMINS_PASSWORD in line]


def test_acls_decide_the_rights_of_a_client(documented: Documented) -> None:
    for command in documented.blocks[3][1].splitlines():
        run(command.removeprefix("$ "))
    bootstrap = ("-b", f"localhost:{documented.port}", "--timeout", "200")
    alice = (
        *bootstrap,
        "--command-config",
        str(documented.client("alice", sasl_username="alice", sasl_password="secret")),
    )
    assert tried("produce", "orders", *alice, given="one\n")[0] == 0
    read = ("consume", "orders", "--count", "1", *alice)
    assert tried(*read) == (0, "one\n")
    assert tried(*read, "--group", "billing") == (0, "one\n")
    for denied, cause in (
        ((*read, "--group", "other"), "User:alice needs read on group other"),
        (("topic", "create", "mine", *alice), "User:alice needs create on topic mine"),
    ):
        code, output = tried(*denied)
        assert code, denied
        assert cause in output, output


def test_a_client_without_credentials_is_rejected(documented: Documented) -> None:
    bootstrap = ("-b", f"localhost:{documented.port}")
    for name, changes, cause in (
        ("wrong", {"sasl_password": "guessed"}, "invalid credentials"),
        ("unknown", {"sasl_username": "eve"}, "invalid credentials"),
        ("weaker", {"sasl_mechanism": "PLAIN"}, "does not enable PLAIN"),
    ):
        file = documented.client(name, **changes)
        code, output = tried("topic", "list", *bootstrap, "--timeout", "200", "--command-config", str(file))
        assert code, name
        assert cause in output, output
    assert documented.process is not None
    for name, protocol, cause in (
        ("none", "SSL", r"Metadata \(3\) came before authentication"),
        ("plain", "PLAINTEXT", "TLS: the listener speaks TLS, and the client sent plaintext"),
    ):  # this client tries again until its time is over, so the broker's log says why
        unset = dict.fromkeys(("sasl_mechanism", "sasl_username", "sasl_password"), "")
        file = documented.client(name, security_protocol=protocol, **unset)
        line = re.compile(f"clos(ed|ing) the connection from .* on SASL_SSL: {cause}")
        for seconds in ("2", "10", "60"):  # it may not have connected before the first one
            assert tried("topic", "list", *bootstrap, "--timeout", seconds, "--command-config", str(file))[0], name
            if any(map(line.search, documented.process.lines)):
                break
        documented.process.expect(line.pattern)
