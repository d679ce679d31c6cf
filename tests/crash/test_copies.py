"""The judge of copiers is shown logs with one fault each, and must name it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.crash.copiers.copier import copy_of
from tests.crash.copies import CopiedLog, check_copies, original_of
from tests.crash.stamps import NotStamped, Stamp, value_of
from tests.storage.support import batch, marker

SOURCE: Final = {("source", 0): 4, ("source", 1): 2}


def copy(sequence: int, partition: int = 0, topic: str = "source") -> bytes:
    """Return the copy of a record of the source."""
    return copy_of(value_of(Stamp("source", topic, partition, sequence), "filling, of words"), "copier-1")


WHOLE: Final = [copy(0), copy(0, 1), copy(1), copy(2), copy(1, 1), copy(3)]


def kinds(values: Sequence[bytes], *, settled: bool = True) -> set[str]:
    return {violation.kind for violation in check_copies(SOURCE, [values], settled=settled)}


def test_all_is_copied_once() -> None:
    assert kinds(WHOLE) == set()
    assert list(check_copies(SOURCE, [WHOLE[:1] + WHOLE[2:4], [WHOLE[1], *WHOLE[4:]]], settled=False)) == []


def test_uncopied_records_are_lost_only_at_the_end() -> None:
    assert kinds(WHOLE[:-1], settled=False) == set()
    assert kinds(WHOLE[:-1]) == {"lost"}
    assert kinds(WHOLE[1:], settled=False) == set()
    assert kinds(WHOLE[1:]) == {"lost"}


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([*WHOLE, copy(3)], "duplicate"),
        ([WHOLE[0], *WHOLE], "duplicate"),
        ([*WHOLE, *WHOLE], "duplicate"),
        ([copy(1), copy(0), copy(2), copy(3), copy(0, 1), copy(1, 1)], "order"),
        ([*WHOLE, copy(4)], "foreign"),
        ([*WHOLE, copy(0, 2)], "foreign"),
        ([*WHOLE, copy(0, 0, "other")], "foreign"),
        ([*WHOLE, b"copier-1 00000000 " + value_of(Stamp("source", "source", 0, 1))], "foreign"),
        ([*WHOLE, b""], "foreign"),
    ],
)
def test_faults(values: list[bytes], wrong: str) -> None:
    assert kinds(values) == {wrong}


def test_a_copy_is_known_by_its_original() -> None:
    assert original_of(copy(7, 3)) == Stamp("source", "source", 3, 7)
    with pytest.raises(NotStamped):
        original_of(copy(7, 3).replace(b"words", b"Words"))


def log_of(*entries: Callable[[int], bytes]) -> CopiedLog:
    """A log of entries, which are given their offsets."""
    log = CopiedLog()
    data = b""
    for entry in entries:
        raw = entry(log.end)
        data += struct.pack(">q", log.end) + raw[8:]
        log.read(data)
    assert log.problems == []
    return log


def sent(producer_id: int, *values: bytes, transactional: bool = True, epoch: int = 0) -> Callable[[int], bytes]:
    return lambda _: batch(list(values), producer=(producer_id, epoch, 0), transactional=transactional)


def ended(producer_id: int, committed: bool) -> Callable[[int], bytes]:
    return lambda _: marker(committed, producer_id, 0, 0)


def test_markers_decide() -> None:
    log = log_of(
        sent(1, b"kept 1"), sent(2, b"dropped"), sent(1, b"kept 2"), ended(2, False), ended(1, True),
        sent(2, b"kept too"), ended(2, True), sent(3, b"open"),
    )  # fmt: skip
    assert log.values == [b"kept 1", b"kept 2", b"kept too"]
    assert (log.aborted, log.transactions) == (1, [1, 2])
    assert list(log.open) == [3]


def test_transactions_in_the_epoch_of_an_earlier_one_are_counted() -> None:
    log = log_of(
        sent(1, b"new a"), sent(1, b"new b"), ended(1, True), sent(1, b"new c", epoch=1), ended(1, True),
        sent(2, b"old a"), ended(2, False), sent(2, b"old b"), ended(2, True),
    )  # fmt: skip
    assert log.same_epoch == {"old": 1}


def test_values_come_in_the_order_of_the_log() -> None:
    log = log_of(sent(1, b"first", b"second"), sent(2, b"third"), ended(2, True), ended(1, True))
    assert log.values == [b"first", b"second", b"third"]


def test_non_transactional_records_are_visible_at_once() -> None:
    assert log_of(sent(1, b"value", transactional=False)).values == [b"value"]


@pytest.mark.parametrize(
    ("stable", "end", "wrong"),
    [(2, 4, False), (1, 3, False), (0, 4, False), (3, 4, True), (4, 4, True), (2, 3, True)],
)
def test_last_stable_offset_is_checked(stable: int, end: int, wrong: bool) -> None:
    """At 0 there is a record in no transaction; the one from 1 on ended at 3, and that from 2 on did not."""
    log = log_of(sent(1, b"a", transactional=False), sent(2, b"b"), sent(3, b"c"), ended(2, True))
    assert [violation.kind for violation in log.check_stable(stable, end)] == ["unstable"] * wrong


def test_a_log_that_changed_is_damaged() -> None:
    log = CopiedLog()
    log.read(batch([b"a"], producer=(1, 0, 0), transactional=True))
    log.read(batch([b"b"], producer=(1, 0, 0), transactional=True))
    assert len(log.problems) == 1
