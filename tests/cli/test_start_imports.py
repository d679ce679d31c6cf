"""Modules that commands for running clusters import: those of a reactor take longer than all others together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import Broker

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from pylogbroker.cli import main
try:
    main(prog_name="pylogbroker")
except SystemExit as end:
    print("status", end.code)
print("modules", *sys.modules, sep="\\n")
"""

UNUSED = {
    "a reactor": ("twisted", "zope", "automat", "asyncio", "pylogbroker.rpc.connection"),
    "tables for terminals": ("rich", "yaml"),
    "many records": ("numpy", "pyarrow", "pyspark"),
    "the web UI": ("jinja2", "markupsafe"),
    "lists of what is installed": ("pkg_resources", "importlib.metadata"),
    "TLS": ("ssl", "cryptography"),
    "logins": ("pylogbroker.rpc.authentication", "pylogbroker.security.sasl.client"),
    "a broker": ("pylogbroker.broker", "pylogbroker.storage", "pylogbroker.tap"),
}

COMMANDS = (
    "acl list",
    "broker describe",
    "cluster describe",
    "cluster features",
    "cluster health",
    "cluster info",
    "cluster log-dirs",
    "config describe broker 0",
    "config describe topic {topic}",
    "group describe none",
    "group lag",
    "group list --lag",
    "quota describe",
    "reassign list",
    "topic alter {topic} -s retention.ms=7d",
    "topic describe {topic}",
    "topic list",
    "topic trim {topic} --all --yes",
    "top --once --interval 0.1 --format json",
    "txn list",
    "txn producers {topic}",
    "user list",
)

ANSWERED = ("Error: there is no group", "Error: ACLs: No Authorizer", "Error: the cluster has no live broker")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_reactor(broker: Broker, command: str) -> None:
    words = command.format(topic="imports").split()
    subprocess.run(
        [sys.executable, "-m", "pylogbroker.cli", "topic", "create", "imports", "--if-not-exists"],
        cwd=ROOT,
        env={"PYLOGBROKER_BOOTSTRAP_SERVER": broker.bootstrap, "PYLOGBROKER_CONFIG": "/nonexistent"},
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env={"PYLOGBROKER_BOOTSTRAP_SERVER": broker.bootstrap, "PYLOGBROKER_CONFIG": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, modules = done.stdout.split("modules\n")
    assert "status 0" in before or done.stderr.startswith(ANSWERED), done.stderr
    imported = set(modules.splitlines())
    for purpose, names in UNUSED.items():
        unneeded = [one for one in imported if any(one == name or one.startswith(f"{name}.") for name in names)]
        assert not unneeded, f"{command} does not need {purpose}"
