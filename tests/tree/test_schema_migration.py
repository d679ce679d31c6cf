"""A file of schema version 1, as earlier releases wrote it, is migrated when it is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import Create, Stat
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import FILE_NAME
from tests.tree.conftest import now

SCHEMA_1 = """
BEGIN;
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    sequence INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX child ON node (parent, name);
CREATE TABLE counter (transactions INTEGER NOT NULL);
INSERT INTO node VALUES ('/', NULL, '', x'', 0, 0, 0, 0, 0);
INSERT INTO counter VALUES (0);
PRAGMA user_version = 1;
COMMIT;
"""
NODES = """
BEGIN;
INSERT INTO node VALUES ('/a', '/', 'a', x'64617461', 3, 1, 9, 0, 2);
INSERT INTO node VALUES ('/a/plain', '/a', 'plain', x'00ff', 0, 2, 2, 0, 0);
INSERT INTO node VALUES ('/a/n-0000000001', '/a', 'n-0000000001', x'', 0, 3, 3, 0, 0);
INSERT INTO node VALUES ('/a/alive', '/a', 'alive', x'', 0, 4, 4, 1, 0);
UPDATE counter SET transactions = 9;
COMMIT;
"""


@pytest.fixture
def directory(tmp_path: Path) -> str:
    connection = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(SCHEMA_1)
    connection.executescript(NODES)
    connection.close()
    return str(tmp_path)


def schema_of(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return [*found, ("version", version)]


def test_nodes_are_kept(directory: str) -> None:
    for _ in range(2):
        tree = EmbeddedTree.open(directory)
        node = now(tree.get("/a"))
        assert node.data == b"data"
        assert node.stat == Stat(3, 1, 9, children_version=2)
        assert now(tree.children("/a")) == ["n-0000000001", "plain"]
        assert now(tree.get("/a/plain")).data == b"\x00\xff"
        now(tree.close())


def test_sequence_and_transaction_numbers_go_on(directory: str) -> None:
    tree = EmbeddedTree.open(directory)
    assert tree.session_id == 10
    [created] = now(tree.commit([Create("/a/n-", sequence=True)]))
    assert created.path == "/a/n-0000000004"
    assert now(tree.get(created.path)).stat.created == 10
    now(tree.close())


def test_a_migrated_file_has_the_schema_of_a_new_one(directory: str, tmp_path: Path) -> None:
    for path in (directory, str(tmp_path / "new")):
        now(EmbeddedTree.open(path).close())
    assert schema_of(tmp_path / FILE_NAME) == schema_of(tmp_path / "new" / FILE_NAME)


def test_a_migration_that_fails_leaves_the_file_as_it_was(directory: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("DROP TABLE counter")
    connection.execute("CREATE TABLE old (x)")
    connection.close()
    before = schema_of(tmp_path / FILE_NAME)
    for _ in range(2):  # the first failure must not keep the lock
        with pytest.raises(StartupError, match=f"{FILE_NAME}: cannot be migrated to schema version 3: .*old"):
            EmbeddedTree.open(directory)
    assert schema_of(tmp_path / FILE_NAME) == before
