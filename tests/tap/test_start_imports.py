"""Modules that the start of a broker imports: not those of what its settings leave out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, tempfile
from twisted.internet import reactor
from pylogbroker.tap import makeBroker
with tempfile.TemporaryDirectory() as directory:
    service = makeBroker(reactor, {"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0"})
    service.has_ui = True
    service.startService()
    service.listening.addCallback(lambda _: print(*sys.modules, sep="\\n"))
    service.stopService()
"""

PROGRAM_WITHOUT_FILES = """
import sys, tempfile
from twisted.internet import reactor
from pylogbroker.tap import Options, makeService
with tempfile.TemporaryDirectory() as directory:
    options = Options()
    options.parseOptions(["--data-dir", directory, "--listener", "PLAINTEXT://127.0.0.1:0"])
    options.parent = {"nodaemon": 1, "logfile": "-", "chroot": "/srv/jail"}
    service = makeService(options)
    sys.meta_path.clear()
    sys.modules["pylogbroker.plugins"].__path__ = []
    service.startService()
    from pylogbroker.broker.apis import APIS
    print(len(APIS) - sum(api.guarded().is_read in (True, False) for api in APIS))
"""

PROGRAM_OF_SOURCES = """
import linecache, tempfile
from pylogbroker.tap import Options, makeService
with tempfile.TemporaryDirectory() as directory:
    options = Options()
    options.parseOptions(["--data-dir", directory, "--listener", "PLAINTEXT://127.0.0.1:0"])
    options.parent = {"nodaemon": 1, "logfile": "-"}
    makeService(options)
    print(sum(name.startswith("<attrs") for name in linecache.cache))
"""

UNUSED = {
    "handlers": ("pylogbroker.broker.apis.", "pylogbroker.wire.messages."),
    "clients of Kafka 0.7": ("pylogbroker.legacy07.server", "pylogbroker.legacy07.wire"),
    "logins": (
        "pylogbroker.broker.security.delegation",
        "pylogbroker.broker.security.sasl_listeners",
        "pylogbroker.net.sasl_protocol",
        "pylogbroker.security.delegation",
        "pylogbroker.security.sasl.authentication",
    ),
    "clusters": (
        "pylogbroker.broker.membership",
        "pylogbroker.broker.replication",
        "pylogbroker.controller",
        "pylogbroker.tree.zookeeper",
        "pylogbroker.replication.",
        "pylogbroker.rpc.broker_channel",
        "pylogbroker.tap.zookeeper",
        "kazoo",
    ),
    "access control": ("pylogbroker.broker.security.access", "pylogbroker.security.acls"),
    "escapes in files of settings": ("javaproperties", "xml"),
    "the HTTP server": ("pylogbroker.metrics", "jinja2", "prometheus_client", "twisted.web"),
}

USED = {"pylogbroker.replication.throttle"}


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """Names of the modules that a program has imported once its broker listens."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("part", UNUSED)
def test_a_broker_does_not_import_a_part_that_it_does_not_use(part: str, imported: frozenset[str]) -> None:
    assert "pylogbroker.broker.assembly" in imported
    assert sorted(name for name in imported - USED if name.startswith(UNUSED[part])) == []


def test_the_exceptions_are_needed(imported: frozenset[str]) -> None:
    assert imported >= USED


def test_a_broker_in_another_root_needs_no_files_of_python() -> None:
    root = Path(__file__).parents[2]
    code = [sys.executable, "-c", PROGRAM_WITHOUT_FILES]
    done = subprocess.run(code, cwd=root, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines()[-1:], done.returncode) == (["0"], 0), done.stderr


def test_a_broker_keeps_no_source_of_generated_methods() -> None:
    root = Path(__file__).parents[2]
    code = [sys.executable, "-c", PROGRAM_OF_SOURCES]
    done = subprocess.run(code, cwd=root, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 10  # of a few modules that are imported after the others
