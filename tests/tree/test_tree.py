"""The tree's promises: versions, sequence and ephemeral nodes, transactions, durability."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import attrs
import pytest
from zope.interface.verify import verifyObject

from pylogbroker.errors import StartupError
from pylogbroker.interfaces import (
    CREATOR_ACL,
    OPEN_ACL,
    Acl,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    InvalidAcl,
    ITree,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Permission,
    SetData,
    Unavailable,
)
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import FILE_NAME
from tests.tree.conftest import now
from tests.tree.trees import on_every_tree


@on_every_tree
async def test_embedded_tree_implements_the_interface(tree: ITree) -> None:
    assert verifyObject(ITree, tree)


@on_every_tree
async def test_a_new_tree_has_the_root_alone(tree: ITree) -> None:
    assert (await tree.children("/")) == []
    assert (await tree.get("/")).data is None


@on_every_tree
async def test_nodes_hold_data(tree: ITree) -> None:
    creations = [Create("/a", b"\x00\xff"), Create("/a/b", b""), Create("/null")]
    assert (await tree.commit(creations)) == [OperationResult(path) for path in ("/a", "/a/b", "/null")]
    assert (await tree.get("/a")).data == b"\x00\xff"
    assert (await tree.get("/a/b")).data == b""
    assert (await tree.get("/null")).data is None
    await tree.commit([SetData("/a", None), SetData("/null", b"")])
    assert (await tree.get("/a")).data is None
    assert (await tree.get("/null")).data == b""
    assert (await tree.exists("/a/b/c")) is None


@on_every_tree
async def test_versions_count_the_changes_of_a_nodes_data(tree: ITree) -> None:
    await tree.commit([Create("/a")])
    assert (await tree.get("/a")).stat.version == 0
    await tree.commit([SetData("/a", b"1", version=0), SetData("/a", b"2")])
    node = await tree.get("/a")
    assert (node.data, node.stat.version) == (b"2", 2)


@on_every_tree
async def test_transaction_numbers_grow_over_the_whole_tree(tree: ITree) -> None:
    await tree.commit([Create("/a")])
    await tree.commit([Create("/b")])
    await tree.commit([SetData("/a", b"x")])
    a, b = (await tree.get("/a")).stat, (await tree.get("/b")).stat
    assert a.created < b.created < a.modified
    await tree.commit([Delete("/a")])
    await tree.commit([Create("/a")])
    assert (await tree.get("/a")).stat.created > a.modified


@on_every_tree
async def test_a_change_of_data_returns_the_metadata(tree: ITree) -> None:
    created, changed, again = await tree.commit(
        [Create("/a", ephemeral=True), SetData("/a", b"1", 0), SetData("/a", b"2")]
    )
    assert created == OperationResult("/a")
    assert changed.path == "/a"
    assert again.stat == (await tree.get("/a")).stat
    assert changed.stat == attrs.evolve(again.stat, version=1)
    assert again.stat.version == 2
    assert again.stat.created == again.stat.modified > 0


@on_every_tree
async def test_ephemeral_nodes_name_their_session(tree: ITree) -> None:
    await tree.commit([Create("/e", ephemeral=True), Create("/p")])
    assert (await tree.get("/e")).stat.owner == tree.session_id != 0
    assert (await tree.get("/p")).stat.owner == 0


@on_every_tree
async def test_the_children_version_counts_creations_and_deletions(tree: ITree) -> None:
    await tree.commit([Create("/p"), Create("/p/a"), Create("/p/a/deep"), Create("/p/b")])
    await tree.commit([SetData("/p/a", b"x"), Delete("/p/b")])
    assert (await tree.get("/p")).stat.children_version == 3
    assert (await tree.get("/p/a")).stat.children_version == 1


@on_every_tree
async def test_nodes_are_open_to_all_unless_an_acl_says_otherwise(tree: ITree) -> None:
    readable = (Acl("world", "anyone", Permission.READ | Permission.ADMIN),)
    await tree.commit([Create("/open"), Create("/readable", acl=readable)])
    assert (await tree.acl("/open")) == OPEN_ACL
    assert (await tree.acl("/readable")) == readable
    with pytest.raises(NoNode):
        await tree.acl("/none")


@on_every_tree
@pytest.mark.parametrize("acl", [(), CREATOR_ACL])
async def test_an_acl_of_nobody_is_an_error(tree: ITree, acl: tuple[Acl, ...]) -> None:
    with pytest.raises(InvalidAcl):
        await tree.commit([Create("/a", acl=acl)])
    assert (await tree.exists("/a")) is None


@on_every_tree
async def test_children_are_sorted_by_name_and_only_of_one_level(tree: ITree) -> None:
    await tree.commit([Create("/p"), Create("/p/b", b"B"), Create("/p/a", b"A"), Create("/p/a/deep"), Create("/pa")])
    assert (await tree.children("/p")) == ["a", "b"]
    assert (await tree.children("/")) == ["p", "pa"]
    assert (await tree.children("/pa")) == []
    assert (await tree.children_with_data("/pa")) == {}


@on_every_tree
async def test_many_are_read_at_once_in_the_order_asked(tree: ITree) -> None:
    paths = [f"/n{number}" for number in range(1300)]
    await tree.commit([Create(path, path.encode()) for path in paths[::2]])
    nodes = await tree.get_many([*reversed(paths), "/n0"])
    found = [node.data.decode() if node else None for node in nodes]
    assert found == [path if path in paths[::2] else None for path in reversed(paths)] + ["/n0"]
    assert (await tree.get_many([])) == []


@on_every_tree
@pytest.mark.parametrize(
    ("operation", "error", "path"),
    [
        (Create("/a"), NodeExists, "/a"),
        (Create("/x/y"), NoNode, "/x"),
        (Create("/e/y"), NoChildrenForEphemerals, "/e"),
        (SetData("/x", b""), NoNode, "/x"),
        (SetData("/a", b"", version=1), BadVersion, "/a"),
        (Delete("/x"), NoNode, "/x"),
        (Delete("/a/b", version=7), BadVersion, "/a/b"),
        (Delete("/a"), NotEmpty, "/a"),
        (Delete("/"), NotEmpty, "/"),
        (Check("/x"), NoNode, "/x"),
        (Check("/a", version=3), BadVersion, "/a"),
    ],
)
async def test_a_rejected_transaction_changes_nothing(
    tree: ITree, operation: Operation, error: type[CoordinationError], path: str
) -> None:
    await tree.commit([Create("/a"), Create("/a/b"), Create("/e", ephemeral=True)])
    with pytest.raises(error) as caught:
        await tree.commit([Create("/new"), SetData("/", b"changed"), operation])
    assert caught.value.path == path
    assert path in str(caught.value)
    assert (await tree.exists("/new")) is None
    assert (await tree.get("/")).stat.version == 0


@on_every_tree
async def test_operations_see_earlier_ones_of_their_transaction(tree: ITree) -> None:
    life: list[Operation] = [
        Create("/a"),
        SetData("/a", b"1"),
        Check("/a", version=1),
        Create("/a/b"),
        Delete("/a/b"),
        Delete("/a"),
    ]
    await tree.commit(life)
    assert (await tree.children("/")) == []


@on_every_tree
@pytest.mark.parametrize("read", ["get", "children", "children_with_data"])
async def test_reading_a_missing_node_is_an_error(tree: ITree, read: str) -> None:
    with pytest.raises(NoNode):
        await getattr(tree, read)("/x")


@on_every_tree
async def test_sequence_numbers_never_come_again(tree: ITree) -> None:
    await tree.commit([Create("/q"), Create("/r")])
    first = await tree.commit([Create("/q/n-", sequence=True), Create("/q/n-", sequence=True)])
    assert [result.path for result in first] == ["/q/n-0000000000", "/q/n-0000000001"]
    await tree.commit([Delete(first[1].path), Create("/q/plain")])
    second = await tree.commit([Create("/q/", sequence=True), Create("/r/n-", sequence=True)])
    assert [result.path for result in second] == ["/q/0000000003", "/r/n-0000000000"]


def test_nodes_know_when_they_were_created(tmp_path: Path) -> None:
    clock = iter((0, 1111, 2222))  # the first: sessions that a crash left
    tree = EmbeddedTree.open(str(tmp_path), now_ms=lambda: next(clock, 3333))
    now(tree.commit([Create("/a")]))
    now(tree.commit([SetData("/a", b"x")]))
    assert now(tree.get("/a")).stat.created_ms == 1111
    now(tree.close())


class TestReopened:
    """Return what a later session finds."""

    def test_changes_are_kept_and_ephemerals_are_not(self, tmp_path: Path) -> None:
        tree = EmbeddedTree.open(str(tmp_path))
        now(tree.commit([Create("/a", b"1"), SetData("/a", b"2"), Create("/a/e", ephemeral=True)]))
        before = now(tree.get("/a"))
        owner = now(tree.get("/a/e")).stat.owner
        now(tree.close())
        tree = EmbeddedTree.open(str(tmp_path))
        assert tree.session_id > owner
        node = now(tree.get("/a"))
        assert node.data == before.data
        assert node.stat == attrs.evolve(before.stat, children_version=2)
        assert now(tree.children("/a")) == []
        now(tree.commit([Create("/b")]))
        assert now(tree.get("/b")).stat.created > before.stat.modified
        now(tree.close())

    def test_ephemeral_nodes_are_removed_after_an_unclean_end(self, tmp_path: Path) -> None:
        crashed = EmbeddedTree.open(str(tmp_path / "one"))
        now(crashed.commit([Create("/a", b"1"), Create("/a/e", ephemeral=True)]))
        (tmp_path / "two").mkdir()
        for file in (tmp_path / "one").iterdir():  # as the disk is without a close
            (tmp_path / "two" / file.name).write_bytes(file.read_bytes())
        now(crashed.close())
        tree = EmbeddedTree.open(str(tmp_path / "two"))
        assert now(tree.get("/a")).data == b"1"
        assert now(tree.children("/a")) == []
        now(tree.close())

    def test_one_session_at_a_time(self, tmp_path: Path) -> None:
        tree = EmbeddedTree.open(str(tmp_path))
        now(tree.commit([Create("/e", ephemeral=True)]))
        with pytest.raises(StartupError, match=f"{tmp_path} is in use by another broker"):
            EmbeddedTree.open(str(tmp_path))
        assert now(tree.exists("/e")) is not None
        now(tree.close())
        now(EmbeddedTree.open(str(tmp_path)).close())

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StartupError, match="Not a directory"):
            EmbeddedTree.open(str(tmp_path / "file" / "tree"))

    def test_a_file_that_is_no_tree_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).write_bytes(b"these are not the bytes of a database, by no means" * 50)
        with pytest.raises(StartupError, match=f"{FILE_NAME}: file is not a database"):
            EmbeddedTree.open(str(tmp_path))
        assert (tmp_path / FILE_NAME).read_bytes().startswith(b"these are not")

    def test_a_newer_layout_is_left_alone(self, tmp_path: Path) -> None:
        now(EmbeddedTree.open(str(tmp_path)).close())
        connection = sqlite3.connect(tmp_path / FILE_NAME)
        connection.execute("PRAGMA user_version = 4")
        connection.close()
        for _ in range(2):  # the first failure must not keep the lock
            with pytest.raises(StartupError, match="written by a newer release"):
                EmbeddedTree.open(str(tmp_path))


def test_a_failing_database_file_is_reported(tree: EmbeddedTree, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "tree" / FILE_NAME)
    connection.execute("DROP TABLE node")
    connection.close()
    with pytest.raises(Unavailable, match=r"/a .*no such table"):
        now(tree.commit([Create("/a")]))
    assert now(tree.exists("/a")) is None
