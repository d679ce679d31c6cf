"""Profiles of the command, and the environment variables that stand for options."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import cluster_options, main
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.profiles import ProfileFile
from pylogbroker.client.settings import CLIENT
from pylogbroker.errors import ConfigError
from tests.peers.processes import free_ports

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


def profile(*arguments: str, answers: str = "") -> Result:
    return CliRunner().invoke(main, ["profile", *arguments], input=answers)


def test_profiles_are_created_used_shown_and_deleted(seen: list[str], tmp_path: Path) -> None:
    file = tmp_path / ".config" / "pylogbroker" / "config.toml"
    created = profile("create", "local", "-b", "a:1", "-X", 'client.id=\u00fc "\\ \x7f')
    assert (created.exit_code, created.stderr) == (0, f"Created profile local in {file}: the default.\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(f"# mine\n{file.read_text()}# its end\n")
    file.chmod(0o644)
    assert profile("create", "other", "-b", "b:1").exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    invoke()
    assert profile("use", "other").exit_code == 0
    invoke()
    assert seen == ["a:1", "b:1"]
    assert tomllib.loads(file.read_text()) == {
        "default": "other",
        "profiles": {
            "local": {"bootstrap.servers": "a:1", "client.id": '\u00fc "\\ \x7f'},
            "other": {"bootstrap.servers": "b:1"},
        },
    }
    assert "# mine\n" in file.read_text()
    listed = json.loads(profile("list", "--format", "json").stdout)
    assert [(row["profile"], row["default"], row["bootstrap_servers"]) for row in listed] == [
        ("local", False, "a:1"),
        ("other", True, "b:1"),
    ]
    shown = json.loads(profile("show", "--format", "json").stdout)
    assert shown == {"profile": "other", "settings": {"bootstrap.servers": "b:1"}}
    assert profile("delete", "other", answers="n\n").exit_code == 1
    assert profile("delete", "other", "--yes").exit_code == 0
    assert "there is no default profile" in profile("show").stderr
    assert "there is no profile other; it has local" in profile("use", "other").stderr
    assert tomllib.loads(file.read_text()).keys() == {"profiles"}
    assert "# mine\n" in file.read_text()


def test_secrets_are_in_files_in_the_keyring_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: dict[tuple[str, str], str] = {}
    keyring = ModuleType("keyring")
    keyring.__dict__["set_password"] = lambda service, name, secret: stored.update({(service, name): secret})
    keyring.__dict__["get_password"] = lambda service, name: stored.get((service, name))
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    secret = tmp_path / "secret"
    secret.write_text("of the file\n")
    of_files = ("--secret-file", f"ssl.key.password={secret}", "--keyring", "sasl.password")
    created = profile("create", "a", "-b", "a:1", *of_files, "--ask", "ssl.keystore.password", answers="asked\nkept\n")
    assert created.exit_code == 0
    assert stored == {("pylogbroker", "a/sasl.password"): "kept"}
    file = tmp_path / ".config" / "pylogbroker" / "config.toml"
    secrets = {"ssl.key.password": "of the file", "sasl.password": "kept", "ssl.keystore.password": "asked"}
    assert ProfileFile.read(file).settings("a") == {"bootstrap.servers": "a:1", **secrets}
    shown = profile("show")
    assert shown.exit_code == 0
    assert not [value for value in secrets.values() if value in shown.stdout]
    stored.clear()
    assert "sasl.password: the keyring has no secret a/sasl.password of pylogbroker" in invoke()
    secret.unlink()
    assert f"profile a: ssl.key.password: {secret}: No such file or directory" in invoke()
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "keyring, which is not installed" in profile("create", "b", "-b", "b:1", *of_files[2:], answers="x\n").stderr
    assert "there is no profile b" in invoke("--profile", "b")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["create", "x"], "name the brokers by --bootstrap-server"),
        (["create", "x y", "-b", "a:1"], "profile 'x y' is not accepted"),
        (["create", "a", "-b", "a:1"], "there is a profile a already"),
        (
            ["create", "x", "-b", "a:1", "-X", "sasl.password=x"],
            "others would see this secret",
        ),
        (["create", "x", "-b", "a:1", "-X", "sasl.user=x"], "sasl.user is not a setting of this client"),
        (["create", "x", "-b", "a:1", "-X", "security.protocol=TLS"], "security.protocol: 'TLS' is not accepted"),
        (["create", "x", "-b", "a:1", "--ask", "sasl.pass"], "sasl.pass is not a setting of this client"),
        (["create", "x", "-b", "a:1", "--secret-file", "sasl.password=/no/file"], "/no/file: No such file"),
        (["delete", "x"], "there is no profile x; it has a, b"),
    ],
)
def test_wrong_profiles_change_nothing(arguments: list[str], reported: str, tmp_path: Path) -> None:
    write_profiles(tmp_path / ".config")
    done = profile(*arguments)
    assert done.exit_code in (1, 2)
    assert reported in " ".join(done.stderr.split())
    assert (tmp_path / ".config" / "pylogbroker" / "config.toml").read_text() == PROFILES


def test_a_file_of_an_unusual_form_is_left_alone(tmp_path: Path) -> None:
    text = 'profiles = { a = { "bootstrap.servers" = "a:1" } }\n'
    write_profiles(tmp_path / ".config", text)
    for arguments in (["create", "b", "-b", "b:1"], ["delete", "a", "--yes"]):
        assert "its form is too unusual to be changed by this command" in profile(*arguments).stderr
    assert (tmp_path / ".config" / "pylogbroker" / "config.toml").read_text() == text
    assert profile("use", "a").exit_code == 0


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


def test_an_error_says_which_profile_other_settings_are_from(tmp_path: Path) -> None:
    """The address of -b meets settings of the default profile, which are of another cluster."""
    write_profiles(tmp_path / ".config")
    [port] = free_ports(1)
    path = tmp_path / ".config/pylogbroker/config.toml"
    path.write_text('default = "p"\n[profiles.p]\n"bootstrap.servers" = "a:1"\n"client.id" = "x"\n')
    done = CliRunner().invoke(main, ["topic", "list", "-b", f"127.0.0.1:{port}"])
    assert done.stderr.endswith(f" Other settings are those of profile p in {path}.\n")
