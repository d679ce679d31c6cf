"""Completion in shells: names from a cluster, in zsh, and without a broker that answers."""

from __future__ import annotations

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from confluent_kafka import Producer

from pylogbroker.cli import cluster_options, main
from tests.clients.admin import create_topic
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "ready> "
SECONDS_MAX = 120.0
#: Far below that, which it is here for other completions.
COMPLETION_SECONDS_MAX = 60.0


def completed(*words: str) -> list[str]:
    """Return what completes the last word."""
    *before, incomplete = words
    found = ShellComplete(main, {}, "pylogbroker", "_PYLOGBROKER_COMPLETE").get_completions(before, incomplete)
    return [each.value for each in found]


def number() -> str:
    """Return the number of the only broker."""
    [found] = completed("config", "describe", "broker", "")
    return found


@pytest.fixture
def _given(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", broker.bootstrap)


@pytest.mark.usefixtures("_given")
def test_names_that_the_cluster_has(broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(120)
    for verb in ("describe", "fence"):
        assert completed("txn", verb, topic[:-1]) == [topic]
    add = ["user", "add", topic]
    assert CliRunner().invoke(main, add, input="pencil\n").exit_code == 0
    wait_until(lambda: completed("user", "delete", topic[:-1]) == [topic])
    assert completed("quota", "alter", "--user", topic[:-1]) == [topic]
    assert CliRunner().invoke(main, ["user", "delete", topic, "--yes"]).exit_code == 0
    file = tmp_path / "users"
    assert CliRunner().invoke(main, ["user", "add", "alice", "--file", str(file)], input="pencil\n").exit_code == 0
    assert completed("user", "delete", "--file", str(file), "") == ["alice"]
    assert completed("config", "describe", "topic", topic[:-1]) == [topic]
    assert number().isdigit()


@pytest.mark.parametrize(
    "words", [("consume",), ("group", "lag"), ("txn", "describe"), ("config", "describe", "broker")]
)
def test_names_come_without_a_reactor(words: tuple[str, ...], broker: Broker, topic: str) -> None:
    """Twisted and numpy take longer to import than a person waits for Tab."""
    create_topic(broker.bootstrap, topic)
    script = (
        "import sys\nfrom pylogbroker.cli import main\ntry:\n    main(prog_name='pylogbroker')\nfinally:\n"
        "    print([name for name in ('twisted', 'asyncio', 'numpy', 'rich') if name in sys.modules], file=sys.stderr)"
    )
    line = f"pylogbroker {' '.join(words)} "
    environment = {
        **os.environ,
        "PYLOGBROKER_BOOTSTRAP_SERVER": broker.bootstrap,
        "_PYLOGBROKER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) + 1),
    }
    arguments = [sys.executable, "-c", script]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    assert done.stderr == "[]\n"
    if words == ("consume",):
        assert f"plain,{topic}" in done.stdout.splitlines()


@pytest.mark.usefixtures("_given")
def test_settings(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    assert completed("topic", "create", topic, "-c", "retention.m") == ["retention.ms="]
    assert completed("topic", "alter", topic, "--set", "retention.m") == ["retention.ms="]
    assert completed("topic", "alter", topic, "--delete", "retention.m") == ["retention.ms"]
    assert completed("topic", "alter", "no-such-topic", "--delete", "retention.m") == []
    assert completed("config", "alter", "topic", topic, "--append", "cleanup") == ["cleanup.policy="]
    assert completed("config", "alter", "topic", "no-such-topic", "--set", "retention.m") == []
    assert completed("config", "describe", "topic", topic, "--setting", "cleanup") == ["cleanup.policy"]
    assert "log.retention.ms=" in completed("config", "alter", "broker", "--set", "log.ret")
    assert "log.retention.ms=" in completed("config", "alter", "broker", number(), "--set", "log.ret")
    assert completed("config", "alter", "broker", "99999", "--set", "log.ret") == []
    assert set(completed("topic", "list", "-X", "bootstrap")) == {"bootstrap.connect.max.ms=", "bootstrap.servers="}


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """An address that connects and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("verb", [("topic", "describe"), ("group", "lag"), ("txn", "fence"), ("user", "delete")])
def test_a_broker_that_does_not_answer(
    verb: tuple[str, ...], silent_broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_options, "_COMPLETION_SECONDS", 0.1)
    began = time.monotonic()
    assert completed(*verb, "-b", silent_broker, "") == []
    assert time.monotonic() - began < COMPLETION_SECONDS_MAX


class _Terminal:
    """Interactive zsh that has a terminal of its own."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._shown = ""
        self._process = subprocess.Popen(
            ["zsh", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**os.environ, **environment, "ZDOTDIR": str(directory), "TERM": "vt100"},
            start_new_session=True,
        )
        os.close(slave)

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self._shown:
            assert select.select([self._master], [], [], max(0, deadline - time.monotonic()))[0], self._shown
            try:
                self._shown += os.read(self._master, 4096).decode(errors="replace")
            except OSError as error:  # the shell has ended
                raise AssertionError(self._shown) from error

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Type a part of a topic's name and Tab; again if the broker does not answer within a second."""
    create_topic(broker.bootstrap, topic)
    program = tmp_path / "pylogbroker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pylogbroker.cli "$@"\n')
    program.chmod(0o700)
    (tmp_path / ".zshrc").write_text(
        f'PATH={tmp_path}:$PATH\nautoload -U compinit\ncompinit -u -D\neval "$(pylogbroker completion zsh)"\n'
        f"bindkey -e\nPS1='{PROMPT}'\n"
    )

    def completed_line() -> list[str]:
        terminal = _Terminal(tmp_path, {"PYLOGBROKER_BOOTSTRAP_SERVER": broker.bootstrap})
        try:
            terminal.expect(PROMPT)
            terminal.type(f"pylogbroker topic describe {topic[:-1]}\t")
            # Control-A and Control-E go to the line's ends: the completed line is printed, not run.
            terminal.type(f"\x01print -r -- \x05> {tmp_path}/line; print do''ne\n")
            terminal.expect("done")
            return (tmp_path / "line").read_text().split()
        finally:
            terminal.close()

    wait_until(lambda: completed_line() == ["pylogbroker", "topic", "describe", topic], what=completed_line)
