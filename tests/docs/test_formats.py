"""The page of file formats names every file, and its example is what a broker's storage writes."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from pylogbroker.metadata import config_changes, zk_paths
from pylogbroker.records import Record, build
from pylogbroker.security.acls import tree_layout as acl_layout
from pylogbroker.security.acls.bindings import AclResourceType, PatternType
from pylogbroker.security.delegation import tree_layout as token_layout
from pylogbroker.security.sasl import users_file
from pylogbroker.storage import LogConfig, LogManager, load_logs, names
from pylogbroker.tree import disk_reserve, tree_file

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
TOPIC_ID = UUID(int=5)


def written(directory: Path) -> dict[str, bytes]:
    """The files of the example, by their paths."""
    manager = LogManager([str(directory)])
    manager.directories.lock()
    manager.directories.claim(1, "q1Sh-9_ISia_zwGINzRvyQ")
    load_logs(manager, lambda topic: LogConfig(), 0, print)
    log = manager.create("events", 0, LogConfig(), 0, topic_id=TOPIC_ID)
    first = build([Record(0, 1500, b"key", b"value")], producer_id=7, producer_epoch=0, base_sequence=0)
    log.append(first, now_ms=1500, leader_epoch=3)
    log.roll(1500)
    log.append(build([Record(0, 1600, b"key", b"value")]), now_ms=1600, leader_epoch=4)
    log.high_watermark = log.log_end_offset
    manager.close()
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def example() -> dict[str, bytes]:
    """The files of the page's example: hexadecimal lines below the name, or a text beside it."""
    [block] = re.findall(r"## Example.*?```\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, bytes] = {}
    open_names: list[str] = []
    for line in block.splitlines():
        if line.startswith(" "):
            for name in open_names:
                found[name] = found.get(name, b"") + bytes.fromhex(line)
        else:
            name, _, text = line.partition(" ")
            open_names = [name] if not open_names or open_names[-1] in found else [*open_names, name]
            if text.strip():
                found[name] = "".join(f"{each}\n" for each in text.strip().split(", ")).encode()
    return found


def test_example_matches_the_written_files(tmp_path: Path) -> None:
    files = written(tmp_path)
    others = {names.LOCK, names.META, names.CLEAN_SHUTDOWN}
    assert example() == {name: data for name, data in files.items() if name not in others}


def test_the_clean_shutdown_marker(tmp_path: Path) -> None:
    assert f"```\n{written(tmp_path)[names.CLEAN_SHUTDOWN].decode()}\n```" in PAGE


def test_every_file_is_named() -> None:
    constants = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    constants |= {tree_file.FILE_NAME, tree_file.LOCK_NAME, disk_reserve.RESERVE_NAME}
    assert {each for each in constants if each not in PAGE} == set()


def test_nodes_of_security_are_named() -> None:
    paths = [zk_paths.USERS_SECRET, zk_paths.CONFIG_CHANGE_PREFIX]
    paths += [f"{zk_paths.CONFIG_USERS}/<user>", token_layout.path("<id>"), token_layout.CHANGE_PREFIX]
    for pattern in PatternType.LITERAL, PatternType.PREFIXED:
        paths += [
            f"{acl_layout.type_path(pattern, AclResourceType.TOPIC)}/<name>".replace("Topic", "<Type>"),
            acl_layout.new_change_path(pattern),
        ]
    assert {each for each in paths if f"`{each}" not in PAGE} == set()


def nodes() -> dict[str, bytes]:
    """The nodes of the page's example: paths, and their data below."""
    [block] = re.findall(r"```\n(/kafka-acl/.*?)```", PAGE, re.DOTALL)
    parts = re.findall(r"^(/\S+)\n((?: +\S.*\n)+)", block, re.MULTILINE)
    return {path: "".join(line.strip() for line in data.splitlines()).encode() for path, data in parts}


def test_node_examples_match_the_written_nodes() -> None:
    found = nodes()
    acls = found["/kafka-acl/Topic/orders"]
    assert acl_layout.encode_entries(acl_layout.decode_entries(acls)) == acls
    token_path = next(each for each in found if each.startswith(token_layout.TOKENS))
    token = token_layout.decode_token(found[token_path])
    assert token_layout.path(token.token_id) == token_path
    assert token_layout.encode_token(token) == found[token_path]
    assert found["/config/changes/config_change_0000000000"] == config_changes.encode_change("users/alice")


def test_the_file_of_users() -> None:
    [block] = re.findall(r"## File of users\n.*?```\n(.*?)```", PAGE, re.DOTALL)
    content = users_file.parse(block, "the page")
    assert content.passwords == {"alice": "secret"}
    assert list(content.keys) == [("SCRAM-SHA-256", "bob")]
