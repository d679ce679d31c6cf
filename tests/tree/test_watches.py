"""Watches: who is notified of what, and once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.interfaces import BadVersion, Changed, Create, Delete, ITree, NoNode, Operation, SetData
from pylogbroker.tree.embedded import EmbeddedTree
from tests.tree.conftest import now
from tests.tree.trees import on_every_tree


@on_every_tree
@pytest.mark.parametrize(
    ("operation", "reported"),
    [
        (Create("/a/new"), {"children /a"}),
        (SetData("/a", b"x"), {"get /a", "exists /a"}),
        (SetData("/a/b", b"x"), {"get /a/b"}),
        (Delete("/a/b"), {"get /a/b", "children /a", "children /a/b"}),
        (Create("/z"), {"exists /z", "children /"}),
    ],
)
async def test_watches_are_notified_of_changes(tree: ITree, operation: Operation, reported: set[str]) -> None:
    await tree.commit([Create("/a"), Create("/a/b")])
    heard: list[str] = []
    for method, path in [
        ("get", "/a"), ("exists", "/a"), ("children", "/a"), ("get", "/a/b"), ("children", "/a/b"),
        ("exists", "/z"), ("children", "/"),
    ]:  # fmt: skip
        await getattr(tree, method)(path, lambda change, method=method: heard.append(f"{method} {change.path}"))
    await tree.commit([operation])
    assert set(heard) == reported
    assert len(heard) == len(reported)


@on_every_tree
async def test_a_watch_fires_once(tree: ITree) -> None:
    await tree.commit([Create("/a")])
    heard: list[Changed] = []
    await tree.get("/a", heard.append)
    await tree.commit([SetData("/a", b"1"), SetData("/a", b"2")])
    await tree.commit([SetData("/a", b"3")])
    assert heard == [Changed("/a")]


@on_every_tree
async def test_a_watch_sees_the_change_and_may_watch_on(tree: ITree) -> None:
    await tree.commit([Create("/a", b"0")])
    seen: list[bytes | None] = []

    async def look(change: Changed | None = None) -> None:
        seen.append((await tree.get("/a", lambda change: ensureDeferred(look(change)))).data)

    await look()
    for data in (b"1", b"2"):
        await tree.commit([SetData("/a", data)])
        (await tree.get("/a"))  # answered behind what the watch reads
    assert seen == [b"0", b"1", b"2"]


@on_every_tree
async def test_a_rejected_transaction_notifies_no_watch(tree: ITree) -> None:
    await tree.commit([Create("/a")])
    heard: list[Changed] = []
    await tree.get("/a", heard.append)
    with pytest.raises(BadVersion):
        await tree.commit([SetData("/a", b"x"), SetData("/a", b"y", version=0)])
    assert heard == []


@on_every_tree
async def test_no_watch_is_left_where_there_is_no_node(tree: ITree) -> None:
    heard: list[Changed] = []
    for read in (tree.get, tree.children):
        with pytest.raises(NoNode):
            await read("/a", heard.append)
    await tree.commit([Create("/a"), Create("/a/b")])
    assert heard == []


def test_the_end_of_the_session_notifies_nobody(tmp_path: Path) -> None:
    tree = EmbeddedTree.open(str(tmp_path))
    now(tree.commit([Create("/e", ephemeral=True)]))
    heard: list[Changed] = []
    now(tree.exists("/e", heard.append))
    now(tree.close())
    assert heard == []


class FailingWatchTests(SynchronousTestCase):
    """One watch that fails does not stop the notifications of others."""

    def test_the_others_are_notified(self) -> None:
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        tree = EmbeddedTree.open(directory.name)
        self.addCleanup(lambda: now(tree.close()))
        heard: list[Changed] = []
        now(tree.exists("/a", lambda change: 1 / 0))
        now(tree.exists("/a", heard.append))
        now(tree.commit([Create("/a")]))
        self.assertEqual(heard, [Changed("/a")])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
