"""Writes of a controller: each fenced, each with a known outcome; and the election that sets the fence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pylogbroker.controller.fenced_tree import WRITE_ATTEMPTS_MAX, ControllerResigned, FencedTree
from pylogbroker.controller.term import ControllerTerm, elect
from pylogbroker.interfaces import (
    BadVersion,
    CoordinationError,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SetData,
    Unavailable,
)
from tests.controller.memory_tree import Fault, MemoryTree, TreeSession, attempts
from tests.tree.conftest import now


@pytest.fixture
def tree() -> MemoryTree:
    tree = MemoryTree()
    tree.apply([Create("/controller_epoch", b"4")])
    tree.apply([Create("/a", b"0")])
    return tree


def write(session: TreeSession, *operations: Operation, version: int = 0) -> Sequence[CoordinationError | None]:
    return now(FencedTree(session, version).write(operations))


def kinds(errors: Sequence[CoordinationError | None]) -> list[type]:
    return [type(error) for error in errors]


def test_each_operation_has_an_outcome_of_its_own(tree: MemoryTree) -> None:
    operations = [Create("/b"), Create("/a"), SetData("/a", b"1", 0), SetData("/a", b"2", 0), Delete("/missing")]
    errors = write(tree.session(), *operations)
    assert kinds(errors) == [type(None), NodeExists, type(None), BadVersion, NoNode]
    assert (tree.entries["/a"].data, tree.entries["/a"].version) == (b"1", 1)


def test_a_fenced_controller_writes_nothing(tree: MemoryTree) -> None:
    tree.apply([SetData("/controller_epoch", b"5")])
    with pytest.raises(ControllerResigned):
        write(tree.session(), Create("/b"))
    assert "/b" not in tree.entries


def test_an_expired_session_ends_the_term(tree: MemoryTree) -> None:
    session = tree.session()
    tree.expire(session)
    with pytest.raises(ControllerResigned):
        write(session, Create("/b"))
    for read in (FencedTree(session, 0).children("/"), FencedTree(session, 0).children_with_data("/")):
        with pytest.raises(ControllerResigned):
            now(read)


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE])
@pytest.mark.parametrize("operation", [Create("/b", b"x"), SetData("/a", b"1", 0), Delete("/a"), Create("/a/c")])
def test_an_unknown_outcome_is_found_out(tree: MemoryTree, operation: Operation, fault: Fault) -> None:
    session = tree.session()
    seen = attempts(session, {0: fault})
    assert write(session, operation) == [None]
    present = tree.entries.get(operation.path)
    if isinstance(operation, Delete):
        assert present is None
    else:
        assert present
        assert present.data == operation.data
        assert present.version == (0 if isinstance(operation, Create) else 1)
    assert len(seen) == (1 if fault is Fault.UNKNOWN_DONE else 2)


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE])
def test_a_failure_with_an_unknown_outcome(tree: MemoryTree, fault: Fault) -> None:
    session = tree.session()
    attempts(session, {0: fault, 1: fault, 2: fault})
    operations = [Create("/a", b"other"), SetData("/a", b"1", 7), SetData("/missing", b"")]
    assert kinds(write(session, *operations)) == [NodeExists, BadVersion, NoNode]


def test_a_write_that_takes_effect_late(tree: MemoryTree) -> None:
    """The first attempt arrives between the read and the second attempt."""
    session = tree.session()
    late = SetData("/a", b"1", 0)

    class Late(TreeSession):
        async def get_many(self, paths: Sequence[str]) -> list[object]:  # type: ignore[override]
            nodes = await super().get_many(paths)
            if self.tree.entries["/a"].version == 0:
                self.tree.apply([late])
            return list(nodes)

    slow = Late(tree, session.number)
    seen = attempts(slow, {0: Fault.UNKNOWN_NOT_DONE})
    assert write(slow, late) == [None]
    assert len(seen) == 2
    assert tree.entries["/a"].version == 1


@pytest.mark.parametrize("others", [[b"other"], [b"1", b"1"]])
def test_an_unknown_outcome_and_another_writer(tree: MemoryTree, others: list[bytes]) -> None:
    """The node has other data, or ours at a version that is not ours."""
    session = tree.session()

    def fault(operation: Operation) -> Fault:
        for data in others:
            tree.apply([SetData("/a", data)])
        return Fault.UNKNOWN_NOT_DONE

    session.fault = fault
    assert kinds(write(session, SetData("/a", b"1", 0))) == [BadVersion]


def test_endless_doubt_ends_the_term(tree: MemoryTree) -> None:
    session = tree.session()
    session.fault = lambda operation: Fault.UNKNOWN_NOT_DONE
    with pytest.raises(ControllerResigned):
        write(session, Create("/b"))
    seen = attempts(session, dict.fromkeys(range(WRITE_ATTEMPTS_MAX - 1), Fault.UNKNOWN_NOT_DONE))
    assert write(session, Create("/b")) == [None]
    assert len(seen) == WRITE_ATTEMPTS_MAX


def term(session: TreeSession, broker: int = 1) -> ControllerTerm | None:
    return now(elect(session, broker, 123))


def test_the_first_election() -> None:
    tree = MemoryTree()
    session = tree.session()
    node = b'{"version":2,"brokerid":1,"timestamp":"123","kraftControllerEpoch":-1}'
    assert term(session) == ControllerTerm(1, 1, 1, node)
    assert tree.entries["/controller"].data == node
    assert tree.entries["/controller"].owner == session.number
    assert (tree.entries["/controller_epoch"].data, tree.entries["/controller_epoch"].version) == (b"1", 1)
    assert term(tree.session(), 2) is None


def test_the_next_election_has_a_larger_epoch(tree: MemoryTree) -> None:
    first = tree.session()
    assert term(first)
    tree.expire(first)
    after = term(tree.session(), 2)
    assert after
    assert (after.epoch, after.epoch_version) == (6, 2)


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE])
@pytest.mark.parametrize("attempt", [0, 1])
def test_an_election_with_an_unknown_outcome(fault: Fault, attempt: int) -> None:
    tree = MemoryTree()
    session = tree.session()
    attempts(session, {attempt: fault})
    elected = term(session)
    assert elected
    assert (elected.epoch, elected.epoch_version) == (1, 1)


def test_an_election_lost_with_an_unknown_outcome() -> None:
    tree = MemoryTree()
    tree.apply([Create("/controller_epoch", b"0")])
    other = tree.session()

    def lose(operation: Operation) -> Fault:
        session.fault = lambda operation: None
        assert term(other, 2)
        return Fault.UNKNOWN_NOT_DONE

    session = tree.session()
    session.fault = lose
    assert term(session) is None


def test_an_election_without_a_session() -> None:
    tree = MemoryTree()
    session = tree.session()
    tree.expire(session)
    with pytest.raises(Unavailable):
        term(session)
