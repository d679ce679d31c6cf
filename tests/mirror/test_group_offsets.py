"""Offsets that a mirror commits for a group, as cases and as moves of a group between two clusters."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.mirror.group_offsets import GroupAction, PairedOffsets, action_for
from pylogbroker.mirror.offset_translation import NOTHING_BEFORE, PartitionTranslation, Run, TranslatedOffset
from pylogbroker.mirror_records.formats import Checkpoint


class Shifted:
    """A copy whose offsets are larger by 100; up to `end` records are copied."""

    def __init__(self, end: int = 1000, *, is_exact: bool = True) -> None:
        self.end = end
        self.is_exact = is_exact

    def downstream(self, upstream: int) -> TranslatedOffset | None:
        is_copied = upstream <= self.end
        return TranslatedOffset(min(upstream, self.end) + 100, is_exact=self.is_exact and is_copied)

    def upstream(self, downstream: int) -> TranslatedOffset | None:
        return None if downstream < 100 else TranslatedOffset(min(downstream - 100, self.end), is_exact=self.is_exact)


def checkpoint(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("billing", "A.orders", 0, upstream, downstream)


def decide(source, target, last, translation=None, **rights):
    offsets = PairedOffsets(source, target, None if last is None else checkpoint(*last))
    may_change = {"may_change_source": True, "may_change_target": True, **rights}
    return action_for(offsets, Shifted() if translation is None else translation, **may_change)


@pytest.mark.parametrize(
    ("source", "target", "last", "action"),
    [
        # the source has moved
        (7, None, None, GroupAction(7, 107, to_target=107)),
        (7, 105, (5, 105), GroupAction(7, 107, to_target=107)),
        (3, 105, (5, 105), GroupAction(3, 103, to_target=103)),
        (7, None, (5, 105), GroupAction(7, 107, to_target=107)),
        # the target has moved
        (5, 107, (5, 105), GroupAction(7, 107, to_source=7)),
        (5, 103, (5, 105), None),
        (None, 107, (5, 105), GroupAction(7, 107, to_source=7)),
        # both have moved
        (8, 107, (5, 105), GroupAction(8, 108, to_target=108)),
        (6, 107, (5, 105), GroupAction(7, 107, to_source=7)),
        (7, 107, (5, 105), GroupAction(7, 107)),
        (4, 103, (5, 105), GroupAction(4, 104, to_target=104)),
        # the target had an offset before the mirror
        (7, 109, None, GroupAction(7, 107)),
        (7, 102, None, GroupAction(7, 107, to_target=107)),
        (7, 107, None, GroupAction(7, 107)),
        # nothing has moved
        (5, 105, (5, 105), None),
        (None, 105, (5, 105), None),
        (None, None, (5, 105), None),
        (None, 107, None, None),
        (5, None, (5, 105), GroupAction(5, 105, to_target=105)),
    ],
)
def test_the_side_on_which_the_group_moved_is_followed(source, target, last, action):
    assert decide(source, target, last) == action


def test_a_group_with_members_in_the_target_gets_a_checkpoint_alone():
    assert decide(7, 105, (5, 105), may_change_target=False) == GroupAction(7, 107)
    assert decide(7, 105, (7, 107), may_change_target=False) is None


def test_a_group_with_members_in_the_source_keeps_its_offset_there():
    assert decide(5, 107, (5, 105), may_change_source=False) is None
    assert decide(None, 107, (5, 105), may_change_source=False) is None
    assert decide(6, 107, (5, 105), may_change_source=False) == GroupAction(6, 106)


def test_a_group_ahead_of_the_mirror_follows_when_records_arrive():
    copy = Shifted(end=6)
    assert decide(9, None, None, copy) == GroupAction(9, 106, to_target=106)
    assert decide(9, 106, (9, 106), copy) is None
    copy.end = 20
    assert decide(9, 106, (9, 106), copy) == GroupAction(9, 109, to_target=109)


def test_a_less_exact_translation_moves_no_group_back():
    vague = Shifted(end=2, is_exact=False)
    assert decide(7, 105, (5, 105), vague) == GroupAction(7, 105)
    assert decide(4, 105, (5, 105), vague) == GroupAction(4, 102, to_target=102)


def test_offsets_that_nobody_can_translate_stay():
    assert decide(7, None, None, PartitionTranslation()) is None
    assert decide(5, 50, (5, 105)) is None


@attrs.define
class MovingGroup:
    """A group that reads in one cluster at a time, and moves when the mirror has synchronized its offsets."""

    random: random.Random
    translation: PartitionTranslation
    pairs: list[tuple[int, int]] = attrs.field(factory=list)
    ends: tuple[int, int] = (0, 0)
    at: int = 0  # 0: source, 1: target
    committed: list[int | None] = attrs.field(factory=lambda: [0, None])
    last: Checkpoint | None = None
    seen: list[int] = attrs.field(factory=list)

    def copy(self) -> None:
        upstream, downstream = (end + self.random.randint(0, 2) for end in self.ends)
        count = self.random.randint(1, 5)
        after = self.ends[0] if self.pairs else NOTHING_BEFORE
        self.translation.add(Run(upstream, downstream, count, after, upstream + count))
        self.pairs += [(upstream + number, downstream + number) for number in range(count)]
        self.ends = upstream + count, downstream + count + 1

    def read(self) -> None:
        """Read some records from the committed offset on, and commit."""
        position = self.committed[self.at]
        assert position is not None
        for number, pair in enumerate(self.pairs):
            if pair[self.at] >= position and self.random.random() < 0.7:
                self.seen.append(number)
                self.committed[self.at] = pair[self.at] + 1
            elif pair[self.at] >= position:
                return

    def synchronize(self, *, has_members: bool) -> None:
        offsets = PairedOffsets(self.committed[0], self.committed[1], self.last)
        action = action_for(
            offsets,
            self.translation,
            may_change_source=not (has_members and self.at == 0),
            may_change_target=not (has_members and self.at == 1),
        )
        if action is None:
            return
        if action.to_source is not None:
            self.committed[0] = action.to_source
        if action.to_target is not None:
            self.committed[1] = action.to_target
        self.last = checkpoint(action.upstream, action.downstream)


@given(st.integers(0, 2**32), st.lists(st.sampled_from("crrsm"), max_size=40))
def test_a_group_that_moves_to_and_fro_reads_each_record_once(seed, steps):
    group = MovingGroup(random.Random(seed), PartitionTranslation())
    group.copy()
    for step in steps:
        match step:
            case "c":
                group.copy()
            case "r":
                group.read()
            case "s":
                group.synchronize(has_members=True)
            case "m":
                group.synchronize(has_members=False)
                group.at = 1 - group.at
    assert group.seen == list(range(len(group.seen)))
