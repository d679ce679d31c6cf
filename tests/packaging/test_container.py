"""Commands of the container image and of its compose files, run without a container."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.peers.processes import free_ports
from tests.support.line_process import LineProcess

ROOT = Path(__file__).parents[2]
COMPOSE = sorted((ROOT / "etc" / "container").glob("compose*.yaml"))


def instruction(name: str) -> list[str]:
    """Return the words of an instruction of the Containerfile."""
    (line,) = re.findall(rf"^{name} (\[.*\])$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    words: list[str] = json.loads(line)
    return words


def first_of_three_free_ports() -> int:
    """Return a port that is free, as the two after it are: several brokers take ports one after the other."""
    while True:
        (port,) = free_ports(1)
        with ExitStack() as stack, suppress(OSError):
            for number in range(port, port + 3):
                stack.enter_context(socket.create_server(("127.0.0.1", number)))
            return port


def runs(command: Sequence[str], data: Path) -> None:
    """Run a command of the image with other ports and data; the client's port must serve, and SIGTERM must end it."""
    client_port = first_of_three_free_ports()
    (internal_port,) = free_ports(1)
    moved = {"9092": str(client_port), "29092": str(internal_port)}
    words = [re.sub(r"(?<=:)(9092|29092)\b", lambda match: moved[match[0]], word) for word in command]
    words = [str(data) if word == "/data" else word for word in words]
    module = ["-m", "pylogbroker.cli"] if words.pop(0) == "pylogbroker" else []
    with LineProcess([sys.executable, *module, *words], cwd=ROOT) as process:
        process.expect(r"brokers serve: " if "--brokers" in words else r"listening on .*PLAINTEXT")
        bootstrap = ["--bootstrap-server", f"127.0.0.1:{client_port}"]
        listed = [sys.executable, "-m", "pylogbroker.cli", "topic", "list", *bootstrap]
        subprocess.run(listed, cwd=ROOT, check=True, timeout=120)
        assert process.terminate() == -signal.SIGTERM  # the signal is raised again after a clean stop


def test_the_image_runs_one_broker(tmp_path: Path) -> None:
    runs([*instruction("ENTRYPOINT"), *instruction("CMD")], tmp_path / "data")


@pytest.mark.parametrize("path", COMPOSE, ids=[path.name for path in COMPOSE])
def test_a_compose_file_runs(path: Path, tmp_path: Path) -> None:
    (service,) = yaml.safe_load(path.read_text())["services"].values()
    runs([*instruction("ENTRYPOINT"), *service["command"]], tmp_path / "data")


def test_a_compose_file_builds_the_image_of_this_project() -> None:
    for path in COMPOSE:
        (service,) = yaml.safe_load(path.read_text())["services"].values()
        context = (path.parent / service["build"]["context"]).resolve()
        assert (context, (context / service["build"]["dockerfile"]).exists()) == (ROOT, True)


def test_the_image_gets_all_that_the_build_needs() -> None:
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    assert {"pylogbroker", "pyspark_pylogbroker", "twisted", "setup.cfg", "pyproject.toml", "README.md"} <= set(kept)
    assert all((ROOT / name).exists() for name in kept)
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()
