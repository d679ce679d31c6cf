"""The judge itself: histories with one fault each, and the fault must be found, by its name, and no other."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import attrs
import pytest

from tests.crash.checks import Violation, check_commit, check_content, check_record_structure, check_seen
from tests.crash.content import Content, end_of
from tests.crash.history import Committed, History, Promise, Sent
from tests.crash.stamps import NotStamped, Stamp, stamp_in, value_of
from tests.storage.support import batch, messages

P = ("topic", 0)
ONCE, AT_MOST, AT_LEAST = Promise.ONCE, Promise.AT_MOST_ONCE, Promise.AT_LEAST_ONCE
REPEATED = Promise.REPEATED


def stamp(sequence: int, producer: str = "p", partition: int = 0) -> Stamp:
    return Stamp(producer, "topic", partition, sequence)


def log_of(sequences: Sequence[int], ends: Sequence[int] = ()) -> Content:
    """A log of one producer's records."""
    records = {offset: stamp(sequence) for offset, sequence in enumerate(sequences)}
    return Content(records, len(records), list(ends))


def sent(promise: Promise, acknowledged: Sequence[int | None], lives: Sequence[tuple[int, int]] = ()) -> Sent:
    """A producer's own notes: offsets, None where nothing was heard; when each record was begun and ended."""
    one = Sent("p", P, promise)
    for sequence, offset in enumerate(acknowledged):
        begun, ended = lives[sequence] if lives else (0, 0)
        one.begin(begun)
        if offset is not None:
            one.acknowledge(sequence, offset, ended)
    return one


def kinds(violations: Sequence[Violation]) -> set[str]:
    return {violation.kind for violation in violations}


def judged(log: Content, one: Sent, settled: bool = True) -> set[str]:
    return kinds([*check_content(P, log), *check_record_structure(P, log, [one], settled=settled)])


@pytest.mark.parametrize("promise", Promise)
def test_a_good_history_has_no_violations(promise: Promise) -> None:
    assert judged(log_of([0, 1, 2]), sent(promise, [0, 1, 2])) == set()


@pytest.mark.parametrize("promise", [ONCE, AT_MOST, AT_LEAST])
@pytest.mark.parametrize(
    ("log", "acknowledged", "wrong"),
    [
        ([0, 1], [0, 1, 2], {"lost"}),  # the last one
        ([1, 2], [None, 1, 0], {"moved"}),
        ([0, 2, 1], [0, 1, 2], {"moved", "order"}),  # two offsets swapped
        ([0, 1, 1, 2], [0, 1, 3], {"duplicate"}),
        ([0, 2, 1], [0, 2, 1], {"order"}),
        ([0, 1, 7], [0, 1], {"foreign"}),
    ],
)
def test_faults_that_no_promise_of_one_broker_allows(
    promise: Promise, log: list[int], acknowledged: list[int | None], wrong: set[str]
) -> None:
    extra = {"gap"} if promise is ONCE and log[0] == 1 else set()
    assert judged(log_of(log), sent(promise, acknowledged), settled=False) == wrong | extra


def test_a_lost_record_in_the_middle() -> None:
    assert judged(log_of([0, 2]), sent(AT_MOST, [0, 1, 2])) == {"lost", "moved"}
    assert judged(log_of([0, 2]), sent(ONCE, [0, None, 1]), settled=False) == {"gap"}
    assert judged(log_of([0, 2]), sent(AT_MOST, [0, None, 1]), settled=False) == set()


def test_an_acknowledgement_that_did_not_report_the_offset() -> None:
    assert judged(log_of([0, 1]), sent(ONCE, [0, -1])) == set()
    assert judged(log_of([0]), sent(ONCE, [0, -1])) == {"lost"}


@pytest.mark.parametrize(
    ("log", "acknowledged", "lives", "wrong"),
    [
        # Record 1 was sent in life 0 and acknowledged in life 1; life 0 ended at offset 2.
        ([0, 1, 1, 2], [0, 2, 3], [(0, 0), (0, 1), (1, 1)], set()),
        # ... but it is the first copy that was acknowledged.
        ([0, 1, 1, 2], [0, 1, 3], [(0, 0), (0, 1), (1, 1)], {"duplicate"}),
        # The broker did not crash between.
        ([0, 1, 1, 2], [0, 2, 3], [(0, 0), (1, 1), (1, 1)], {"duplicate"}),
        # Both copies are of one life.
        ([0, 0, 1], [1, 2], [(0, 1), (1, 1)], {"duplicate"}),
        # Several together are sent again, and all are there again, in order.
        ([0, 1, 0, 1, 2], [2, 3, 4], [(0, 1), (0, 1), (1, 1)], set()),
        # Not in order, in the second life.
        ([0, 1, 1, 0, 2], [3, 2, 4], [(0, 1), (0, 1), (1, 1)], {"order"}),
    ],
)
def test_duplicates_of_retries_are_allowed(
    log: list[int], acknowledged: list[int | None], lives: list[tuple[int, int]], wrong: set[str]
) -> None:
    assert judged(log_of(log, [2]), sent(AT_LEAST, acknowledged, lives)) == wrong


@pytest.mark.parametrize("promise", [ONCE, AT_MOST])
def test_only_at_least_once_allows_duplicates(promise: Promise) -> None:
    lives = [(0, 0), (0, 1), (1, 1)]
    assert judged(log_of([0, 1, 1, 2], [2]), sent(promise, [0, 2, 3], lives)) == {"duplicate"}


@pytest.mark.parametrize(
    ("log", "acknowledged", "wrong"),
    [
        ([0, 1, 0, 1, 1, 2], [2, 3, 5], set()),
        ([0, 1], [0, 1, 2], {"lost"}),
        ([0, 1, 2], [0, 2, None], {"moved"}),
        ([0, 2, 1], [0, 2, 1], set()),
        ([0, 1, 7], [0, 1], {"foreign"}),
    ],
)
def test_violations_of_a_producer_with_moving_leaders(
    log: list[int], acknowledged: list[int | None], wrong: set[str]
) -> None:
    assert judged(log_of(log), sent(REPEATED, acknowledged), settled=False) == wrong


def test_a_record_that_was_abandoned() -> None:
    for promise, wrong in ((AT_MOST, set()), (AT_LEAST, {"rejected"}), (ONCE, {"rejected"})):
        one = sent(promise, [0, None])
        one.fail(1, "timed out", 0)
        assert judged(log_of([0, 1]), one) == wrong


def test_a_record_that_nobody_answers() -> None:
    one = sent(AT_MOST, [0, None])
    assert judged(log_of([0]), one, settled=False) == set()
    assert judged(log_of([0]), one) == {"unanswered"}


def test_records_of_others() -> None:
    foreign = {0: stamp(0, "stranger")}
    assert kinds(list(check_record_structure(P, Content(foreign, 1), [], settled=True))) == {"foreign"}
    elsewhere = {0: stamp(0, partition=1)}
    assert "foreign" in kinds(
        list(check_record_structure(P, Content(elsewhere, 1), [sent(ONCE, [None])], settled=False))
    )


def test_a_log_that_lost_synced_records_is_damaged() -> None:
    assert judged(log_of([0], [2]), sent(AT_MOST, [0, None]), settled=False) == {"damaged"}


# The log as such


def entry(first: int, base_offset: int, count: int = 2, values: Sequence[bytes] = ()) -> bytes:
    """A batch of stamped records, as the broker would have it at an offset."""
    raw = batch(values or [value_of(stamp(first + number), "x" * 5) for number in range(count)])
    return struct.pack(">q", base_offset) + raw[8:]


GOOD = [entry(0, 0), entry(2, 2), entry(4, 4)]


def flipped(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


def test_a_log_that_goes_on_is_well() -> None:
    content = Content()
    for length in range(4):
        content.read(b"".join(GOOD[:length]))
        assert content.problems == []
    assert content.records == {number: stamp(number) for number in range(6)}


@pytest.mark.parametrize(
    ("again", "problem"),
    [
        (GOOD[:2], "only 2 are left"),
        ([], "only 0 are left"),
        ([GOOD[0], GOOD[2]], "entry 1 was"),
        ([GOOD[0], entry(3, 2), GOOD[2]], "entry 1 was"),
        ([GOOD[0], flipped(GOOD[1]), GOOD[2]], "entry 1 was"),
        ([*GOOD, flipped(entry(6, 6))], "wrong CRC"),
        ([*GOOD, entry(6, 7)], "offset 7 where 6 comes next"),
        ([*GOOD, entry(6, 5)], "offset 5 where 6 comes next"),
        ([*GOOD, entry(6, 6, values=[b"who is it?"])], "that nobody sent"),
        ([*GOOD, entry(6, 6, values=[flipped(value_of(stamp(6), "filling"))])], "that nobody sent"),
    ],
)
def test_a_log_whose_content_changed_is_damaged(again: list[bytes], problem: str) -> None:
    content = Content()
    content.read(b"".join(GOOD))
    content.read(b"".join(again))
    [violation, *_] = check_content(P, content)
    assert violation.kind == "damaged"
    assert problem in violation.what


@pytest.mark.parametrize("raw", [b"".join(GOOD), b"".join([*GOOD, GOOD[0][:50]]), b"".join([*GOOD, b"\0" * 5])])
def test_end_of_the_synced_log(raw: bytes) -> None:
    assert end_of(raw) == 6


@pytest.mark.parametrize("magic", [0, 1])
def test_the_end_of_older_formats(magic: int) -> None:
    assert end_of(messages([b"a", b"b", b"c"], magic)) == 3


# Readers


def test_records_seen_by_readers_must_be_in_the_log() -> None:
    log = log_of([0, 1, 2])
    assert list(check_seen(P, log, {0: stamp(0), 2: stamp(2)})) == []
    assert kinds(list(check_seen(P, log, {3: stamp(3)}))) == {"unseen"}
    assert kinds(list(check_seen(P, log, {1: stamp(5)}))) == {"unseen"}


def test_two_readers_that_saw_different_things() -> None:
    history = History()
    history.see(P, 7, stamp(1))
    history.see(P, 7, stamp(1))
    assert history.contradictions == []
    history.see(P, 7, stamp(2))
    assert len(history.contradictions) == 1


@pytest.mark.parametrize(
    ("found", "wrong"), [(9, "commit back"), (-1, "commit back"), (10, ""), (15, ""), (16, "commit made up")]
)
def test_commits(found: int, wrong: str) -> None:
    assert kinds(list(check_commit("group", P, Committed(10, 12), found, 15))) == ({wrong} if wrong else set())


# What all of it rests on


def test_stamps_are_read_back() -> None:
    assert stamp_in(value_of(stamp(17), "abc def")) == stamp(17)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: b"q" + raw[1:], flipped, lambda raw: b""])
def test_stamps_that_were_damaged(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(NotStamped):
        stamp_in(damage(value_of(stamp(17), "filling")))


def test_evidence_is_of_one_instant() -> None:
    history = History()
    one = history.sender("p", P, ONCE)
    one.begin(0)
    before = history.as_of_now()
    one.acknowledge(0, 0, 0)
    assert [each.acknowledged for each in before.sent] == [0]
    assert [each.acknowledged for each in history.as_of_now().sent] == [1]
    assert attrs.asdict(before)["committed"] == {}
