"""`pylogbroker user`: files of users, and the tree of a stopped broker."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main
from pylogbroker.config import BrokerConfig
from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.security.sasl import users_file
from pylogbroker.security.sasl.stored_credentials import credentials_of
from pylogbroker.security.sasl.users import HASHES
from tests.broker.trees import now, opened_tree
from tests.net.test_sasl_listener import opened


def run(*arguments: object, password: str | None = "pencil") -> Result:
    given = "" if password is None else f"{password}\nmore\n"
    return CliRunner().invoke(main, ["user", *map(str, arguments)], input=given)


def content(path: Path) -> users_file.FileContent:
    return users_file.parse(path.read_text("utf-8"), "users")


def test_a_file_of_users(tmp_path: Path) -> None:
    path = tmp_path / "users"
    assert run("add", "ü x", "--file", path).exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    found = content(path).keys
    assert set(found) == {(mechanism, "ü x") for mechanism in HASHES}
    assert all(keys.is_of("pencil") for keys in found.values())
    assert len({keys.salt for keys in found.values()}) == 2
    assert "pencil" not in path.read_text()
    added = run("add", "bob", "--file", path, "--mechanism", SCRAM_SHA_512, "--iterations", 5000)
    assert added.output == "User bob can connect by SCRAM-SHA-512 or PLAIN.\n"
    assert content(path).keys[SCRAM_SHA_512, "bob"].iterations == 5000
    assert run("list", "--file", path).output == (
        "user  mechanisms\nbob   SCRAM-SHA-512\nü x   SCRAM-SHA-256,SCRAM-SHA-512\n"
    )
    asked = run("delete", "bob", "--file", path, password="n")
    assert (asked.exit_code, asked.stderr) == (1, "Delete user bob? [y/N]: n\nAborted!\n")
    assert content(path).names == {"bob", "ü x"}
    assert run("delete", "bob", "--yes", "--file", path).exit_code == 0
    assert run("delete", "bob", "--yes", "--file", path).output == "Error: there is no user bob\n"
    assert content(path).names == {"ü x"}
    assert os.listdir(tmp_path) == ["users"]


def test_the_rest_of_a_file_stays(tmp_path: Path) -> None:
    """A password in the file is replaced by keys, and the file keeps its mode; a link stays a link."""
    path, link = tmp_path / "users", tmp_path / "link"
    path.write_text("# alice:\n\nalice:old\nalice2:other\n")
    path.chmod(0o640)
    link.symlink_to(path)
    assert run("add", "alice", "--file", link, "--mechanism", SCRAM_SHA_256).exit_code == 0
    lines = path.read_text().splitlines()
    assert lines[:3] == ["# alice:", "", "alice2:other"]
    assert lines[3].startswith("alice:SCRAM-SHA-256$4096$")
    assert len(lines) == 4
    assert (path.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)


@pytest.mark.parametrize("name", ["", "a:b", "#a", "a\nb", " a"])
def test_names_that_a_file_cannot_have(tmp_path: Path, name: str) -> None:
    path = tmp_path / "users"
    assert f"user: {name!r} is not accepted" in run("add", "--file", path, "--", name).output
    assert not path.exists()


def test_no_password(tmp_path: Path) -> None:
    for password in (None, ""):
        assert "the password is empty" in run("add", "a", "--file", tmp_path / "users", password=password).output
    assert not (tmp_path / "users").exists()


def test_a_terminal_is_asked_twice(tmp_path: Path) -> None:
    path = tmp_path / "users"
    with patch("click.testing._NamedTextIOWrapper.isatty", lambda self: True):
        done = CliRunner().invoke(main, ["user", "add", "alice", "--file", str(path)], input="one\nother\none\none\n")
    assert done.exit_code == 0
    assert content(path).keys[SCRAM_SHA_256, "alice"].is_of("one")
    assert "one" not in done.output


def test_a_file_that_the_settings_name(tmp_path: Path) -> None:
    path, properties = tmp_path / "users", tmp_path / "server.properties"
    properties.write_text(f"users={path}\nlog.dirs={tmp_path}/data\n")
    assert run("add", "alice", "--config", properties).exit_code == 0
    assert content(path).names == {"alice"}
    properties.write_text(f"zookeeper.connect=localhost:1\nlog.dirs={tmp_path}/data\n")
    assert "the broker is in a cluster; name a file" in run("add", "alice", "--config", properties).output


def test_the_tree_of_a_stopped_broker(tmp_path: Path) -> None:
    """Other settings of a user stay."""
    quota = {"producer_byte_rate": "5"}
    assert run("add", "a/b", "--data-dir", tmp_path).exit_code == 0
    assert run("list", "--data-dir", tmp_path).output == ("user  mechanisms\na/b   SCRAM-SHA-256,SCRAM-SHA-512\n")
    with opened_tree(str(tmp_path)) as tree:
        node = now(tree.get("/config/users/a%2Fb"))
        assert json.loads(node.data or b"")["version"] == 1
        assert all(keys.is_of("pencil") for keys in credentials_of(zk_schema.decode_config(node.data)).values())
        now(tree.commit([Create(zk_paths.user_config("bob"), zk_schema.encode_config(quota))]))
        assert "is in use by another broker" in run("add", "bob", "--data-dir", tmp_path).output
    assert run("add", "bob", "--data-dir", tmp_path, "--mechanism", SCRAM_SHA_256).exit_code == 0
    assert "bob   SCRAM-SHA-256\n" in run("list", "--data-dir", tmp_path).output
    assert run("delete", "bob", "--yes", "--data-dir", tmp_path).exit_code == 0
    assert run("delete", "bob", "--yes", "--data-dir", tmp_path).exit_code == 1
    with opened_tree(str(tmp_path)) as tree:
        assert zk_schema.decode_config(now(tree.get("/config/users/bob")).data) == quota


def test_the_command_that_a_start_without_users_prints(tmp_path: Path) -> None:
    directories = [tmp_path / "a b", tmp_path / "second"]
    for settings in (
        {"log.dirs": str(directories[0])},
        {"log.dirs": ",".join(map(str, directories)), "metadata.log.dir": str(tmp_path / "metadata")},
        {"users": str(tmp_path / "users")},
    ):
        config = BrokerConfig({"listeners": "SASL_PLAINTEXT://localhost:1", **settings})
        (tmp_path / "users").write_text("")
        home = Path(config.metadata_dir) if "log.dirs" in settings else tmp_path / "elsewhere"
        home.mkdir(exist_ok=True)
        with pytest.raises(ConfigError) as error:
            opened(home, config)
        command = shlex.split(str(error.value).partition(": pylogbroker user ")[2])
        done = run(*(each if each != "NAME" else "alice" for each in command))
        assert done.exit_code == 0, done.output
        authentication = opened(home, config).authentication("SASL_PLAINTEXT")
        authentication.begin("PLAIN", 1)
        authentication.respond(b"\0alice\0pencil")
        assert authentication.user == "alice"
