"""Leader epochs: where one began, where it ended, and what cuts of the log do to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.storage.log.leader_epochs import LeaderEpochs

KNOWN = [(2, 0), (3, 10), (7, 25)]  # epoch, start offset; the log ends at 40


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs("/nowhere", list(entries))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),  # before all known ones: it ended where the first known began
        (2, (2, 10)),
        (3, (3, 25)),
        (4, (3, 25)),  # never a leader here: the largest below counts
        (6, (3, 25)),
        (7, (7, 40)),
        (8, (-1, -1)),
    ],
)
def test_end_offsets_of_epochs(asked: int, answer: tuple[int, int]) -> None:
    assert epochs(*KNOWN).end_offset_for(asked, 40) == answer


def test_without_epochs_nothing_is_known() -> None:
    assert epochs().latest == -1
    assert epochs().end_offset_for(0, 5) == (-1, -1)


@pytest.mark.parametrize(
    ("assigned", "entries"),
    [
        ((7, 30), ((2, 0), (3, 10), (7, 25))),  # goes on
        ((8, 40), ((2, 0), (3, 10), (7, 25), (8, 40))),
        ((9, 25), ((2, 0), (3, 10), (9, 25))),  # epoch 7 wrote nothing
        ((5, 40), ((2, 0), (3, 10), (5, 40))),  # contradicts epoch 7
        ((-1, 40), ((2, 0), (3, 10), (7, 25))),
    ],
)
def test_assigning(assigned: tuple[int, int], entries: tuple[tuple[int, int], ...]) -> None:
    known = epochs(*KNOWN)
    known.assign(*assigned)
    assert known.entries == entries
    assert known.latest == entries[-1][0]


@pytest.mark.parametrize(
    ("end", "entries"),
    [(40, KNOWN), (26, KNOWN), (25, KNOWN[:2]), (24, KNOWN[:2]), (10, KNOWN[:1]), (0, [])],
)
def test_the_end_is_cut(end: int, entries: list[tuple[int, int]]) -> None:
    known = epochs(*KNOWN)
    known.truncate_end(end)
    assert known.entries == tuple(entries)


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, KNOWN),
        (5, [(2, 5), (3, 10), (7, 25)]),
        (10, [(3, 10), (7, 25)]),
        (30, [(7, 30)]),
    ],
)
def test_the_start_moves(start: int, entries: list[tuple[int, int]]) -> None:
    known = epochs(*KNOWN)
    known.truncate_start(start)
    assert known.entries == tuple(entries)


def test_only_changes_are_written(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    known = LeaderEpochs(str(tmp_path), [])
    assert not known.save()
    known.assign(4, 12)
    assert known.save()
    assert not known.save()
    assert path.read_text() == "0\n1\n4 12\n"


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 3), (24, 3), (25, 7), (1000, 7)])
def test_the_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert epochs(*KNOWN).epoch_at(offset) == epoch
