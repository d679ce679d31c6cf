"""Profiles of the command, and the environment variables that stand for options."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from pylogbroker.cli import cluster_options, main
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.client.settings import CLIENT
from pylogbroker.errors import ConfigError

PROFILES = 'default = "a"\n[profiles.a]\n"bootstrap.servers" = "a:1"\n[profiles.b]\n"bootstrap.servers" = "b:1"\n'
#: Variables that the machine of a developer may have.
VARIABLES = ("BOOTSTRAP_SERVER", "PROFILE", "CONFIG", "FORMAT")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"PYLOGBROKER_{name}", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The brokers that a verb would connect to."""
    found: list[str] = []

    @contextmanager
    def admin(connection: Connection) -> Iterator[Any]:
        found.append(connection.settings(CLIENT)["bootstrap.servers"])
        raise ConfigError("enough")
        yield

    monkeypatch.setattr(Connection, "admin", admin)
    return found


def write_profiles(directory: Path, text: str = PROFILES) -> None:
    (directory / "pylogbroker").mkdir(parents=True)
    (directory / "pylogbroker" / "config.toml").write_text(text)


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(main, ["topic", "list", *arguments]).stderr


def test_a_home_that_cannot_be_read_is_as_one_without_a_file(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/proc/1/no-such/home")
    invoke("-b", "a:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    write_profiles(tmp_path / ".config")
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=denied))  # root may read all files
    file = tmp_path / ".config" / "pylogbroker" / "config.toml"
    assert f"{file} is not read: Permission denied" in invoke("-b", "b:1")
    assert seen == ["a:1", "b:1"]
    assert invoke("-b", "b:1", "--profile", "a") == f"Error: profile a: {file}: Permission denied\n"
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))  # no HOME, and no such user
    invoke("-b", "c:1")
    assert seen == ["a:1", "b:1", "c:1"]
    assert "there is no home directory" in invoke("-b", "c:1", "--profile", "a")


def test_the_profile_comes_from_option_variable_or_default(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option counts more than the variable, and that more than the default."""
    write_profiles(tmp_path / ".config")
    invoke()
    invoke("--profile", "b")
    monkeypatch.setenv("PYLOGBROKER_PROFILE", "b")
    invoke()
    invoke("--profile", "a")
    invoke("--profile", "a", "-b", "c:1")
    assert seen == ["a:1", "b:1", "b:1", "a:1", "c:1"]
    monkeypatch.setenv("PYLOGBROKER_PROFILE", "c")
    assert "there is no profile c; it has a, b" in invoke()


def test_the_profile_file_is_found_by_environment(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke()
    assert f"profile b: {tmp_path}/.config/pylogbroker/config.toml: No such file" in invoke("--profile", "b")
    write_profiles(tmp_path / "xdg")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    invoke()
    other = tmp_path / "other.toml"
    other.write_text(PROFILES.replace("a:1", "other:1"))
    monkeypatch.setenv("PYLOGBROKER_CONFIG", str(other))
    invoke()
    assert seen == ["127.0.0.1:9092", "a:1", "other:1"]


def test_the_address_comes_from_option_profile_variable_or_default(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that was typed counts more than the variable, which counts more than the default profile."""
    invoke()
    write_profiles(tmp_path / ".config")
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", "v:1")
    invoke()
    invoke("--profile", "b")
    invoke("--profile", "b", "-X", "bootstrap.servers=x:1")
    invoke("--profile", "b", "-X", "bootstrap.servers=x:1", "-b", "c:1")
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", "")
    invoke()
    assert seen == ["127.0.0.1:9092", "v:1", "b:1", "x:1", "c:1", "a:1"]
    assert "--bootstrap-server is empty" in invoke("-b", "")


def test_errors_say_where_an_address_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setattr(cluster_options, "_DEFAULT_ADDRESS", address)
    arguments = ["-X", "bootstrap.connect.max.ms=0"]
    of_default = invoke(*arguments)
    assert f"cannot connect to {address}" in of_default
    assert "start a broker by `pylogbroker broker start`, or name one by -b HOST:PORT" in of_default
    assert "this is the default" not in invoke(*arguments, "-b", address)
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", address)
    assert invoke(*arguments).endswith(" the address is from PYLOGBROKER_BOOTSTRAP_SERVER.\n")
    write_profiles(tmp_path / ".config", PROFILES.replace("b:1", address))
    of_profile = invoke(*arguments, "--profile", "b")
    assert of_profile.endswith(f" the address is that of profile b in {tmp_path}/.config/pylogbroker/config.toml.\n")
    produced = CliRunner().invoke(main, ["produce", "t", "--profile", "b", *arguments], input="a\n")
    assert (produced.exit_code, "that of profile b" in produced.stderr) == (1, True)


def test_the_form_of_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option counts more than the variable."""
    listed = ["user", "list", "--file", str(tmp_path / "users")]
    assert CliRunner().invoke(main, ["user", "add", "a", *listed[2:]], input="pencil\n").exit_code == 0
    monkeypatch.setenv("PYLOGBROKER_FORMAT", "json")
    assert json.loads(CliRunner().invoke(main, listed).stdout)[0]["user"] == "a"
    assert CliRunner().invoke(main, [*listed, "--format", "yaml"]).stdout.startswith("- user: a\n")
    monkeypatch.setenv("PYLOGBROKER_FORMAT", "xml")
    failed = CliRunner().invoke(main, listed)
    assert (failed.exit_code, "'xml' is not one of" in failed.stderr) == (2, True)
