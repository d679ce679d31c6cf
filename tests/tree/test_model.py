"""Random transactions on the tree and on a model of it in a few lines of Python."""

from __future__ import annotations

import tempfile
from copy import deepcopy

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.interfaces import Check, CoordinationError, Create, Delete, Operation, SetData, Stat
from pylogbroker.tree.embedded import EmbeddedTree
from tests.support.examples import examples
from tests.tree.conftest import now

NAMES = st.sampled_from(["a", "b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
VERSIONS = st.integers(-1, 2)
DATA = st.none() | st.binary(max_size=3)
OPERATIONS = st.one_of(
    st.builds(Create, path=PATHS, data=DATA, ephemeral=st.booleans(), sequence=st.booleans()),
    st.builds(SetData, path=PATHS, data=DATA, version=VERSIONS),
    st.builds(Delete, path=PATHS, version=VERSIONS),
    st.builds(Check, path=PATHS, version=VERSIONS),
)


@attrs.define
class ModelNode:
    """A node of the model."""

    data: bytes | None = None
    version: int = 0
    ephemeral: bool = False
    creations: int = 0
    deletions: int = 0


class Rejected(Exception):
    """The model does not do this."""


def _apply(nodes: dict[str, ModelNode], operation: Operation) -> str:
    if isinstance(operation, Create):
        return _create(nodes, operation)
    node = nodes.get(operation.path)
    if node is None or operation.version not in (-1, node.version):
        raise Rejected
    if isinstance(operation, SetData):
        node.data, node.version = operation.data, node.version + 1
    if isinstance(operation, Delete):
        if any(path.startswith(operation.path + "/") for path in nodes):
            raise Rejected
        del nodes[operation.path]
        nodes[_parent(operation.path)].deletions += 1
    return operation.path


def _create(nodes: dict[str, ModelNode], create: Create) -> str:
    parent = nodes.get(_parent(create.path))
    if parent is None or parent.ephemeral:
        raise Rejected
    path = create.path
    if create.sequence:
        path += f"{parent.creations:010}"
    parent.creations += 1
    if path in nodes:
        raise Rejected
    nodes[path] = ModelNode(create.data, 0, create.ephemeral)
    return path


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _without_ephemerals(nodes: dict[str, ModelNode]) -> dict[str, ModelNode]:
    for path, node in nodes.items():
        if node.ephemeral:
            nodes[_parent(path)].deletions += 1
    return {path: node for path, node in nodes.items() if not node.ephemeral}


def _compared(stat: Stat) -> tuple[int, int, bool]:
    return stat.version, stat.children_version, stat.owner != 0


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=25), st.booleans())
def test_a_tree_behaves_like_the_model(transactions: list[list[Operation]], reopen: bool) -> None:
    model = {"/": ModelNode()}
    with tempfile.TemporaryDirectory() as directory:
        tree = EmbeddedTree.open(directory)
        for operations in transactions:
            after = deepcopy(model)
            try:
                expected: list[str] | None = [_apply(after, operation) for operation in operations]
                model = after
            except Rejected:
                expected = None
            try:
                assert [result.path for result in now(tree.commit(operations))] == expected
            except CoordinationError:
                assert expected is None
        if reopen:
            now(tree.close())
            tree = EmbeddedTree.open(directory)
            model = _without_ephemerals(model)
        found = now(tree.get_many(list(model)))
        assert [node and (node.data, *_compared(node.stat)) for node in found] == [
            (node.data, node.version, node.creations + node.deletions, node.ephemeral) for node in model.values()
        ]
        for path in model:
            prefix = path.rstrip("/") + "/"
            names = [other[len(prefix) :] for other in model if other.startswith(prefix) and other != "/"]
            assert now(tree.children(path)) == sorted(name for name in names if "/" not in name)
        now(tree.close())
