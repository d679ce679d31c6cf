"""Random transactions and watches on the embedded tree and on a real ZooKeeper: both do the same."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.interfaces import CoordinationError, Create, ITree, Operation
from pylogbroker.tree.embedded import EmbeddedTree
from tests.support.examples import examples
from tests.support.reactor_run import run
from tests.tree.test_model import OPERATIONS, PATHS
from tests.tree.trees import connect, fresh_chroot


@attrs.frozen
class Watching:
    """A read with a watch."""

    method: str
    path: str


TRANSACTIONS = st.lists(OPERATIONS, min_size=1, max_size=4)
WATCHINGS = st.builds(Watching, method=st.sampled_from(["get", "exists", "children"]), path=PATHS)
STEPS = st.lists(st.one_of(TRANSACTIONS, TRANSACTIONS, WATCHINGS), min_size=10, max_size=50)


async def outcomes(tree: ITree, steps: list[list[Operation] | Watching]) -> list[object]:
    """Return what a caller sees of the steps, and of the tree after each."""
    seen: list[object] = []
    heard: list[str] = []
    numbers: dict[int, None] = {}  # of transactions; only their order is compared
    paths: dict[str, None] = {}
    for step in steps:
        try:
            if isinstance(step, Watching):
                await getattr(tree, step.method)(
                    step.path, lambda change, step=step: heard.append(f"{step.method} {step.path} {change.path}")
                )
            else:
                results = await tree.commit(step)
                paths |= dict.fromkeys(result.path for result in results)
                seen.append([(result.path, result.stat and result.stat.version) for result in results])
        except CoordinationError as error:
            is_sequence = isinstance(step, list) and any(isinstance(each, Create) and each.sequence for each in step)
            seen.append((type(error), is_sequence or error.path))
        seen.append(sorted(heard))
        for path, node in zip(paths, await tree.get_many(list(paths)), strict=True):
            if node is not None:
                stat = node.stat
                numbers |= {stat.created: None, stat.modified: None}
                seen.append((path, node.data, stat.version, stat.children_version, stat.owner == tree.session_id))
                seen.append([sorted(numbers).index(number) for number in (stat.created, stat.modified)])
                seen.append(await tree.children(path))
    return seen


@settings(max_examples=examples(20), deadline=None)
@given(steps=STEPS)
def test_both_trees_do_the_same(zookeeper: str, steps: list[list[Operation] | Watching]) -> None:
    async def compare() -> None:
        with TemporaryDirectory() as directory:
            trees = [EmbeddedTree.open(str(Path(directory))), await connect(zookeeper + fresh_chroot())]
            try:
                embedded, real = [await outcomes(tree, steps) for tree in trees]
                assert embedded == real
            finally:
                for tree in trees:
                    await tree.close()

    run(compare)
