"""Decides which offsets of a group a mirror commits, and where. No I/O.

A group has an offset in the source, one in the target, and the last checkpoint: both offsets when they last agreed.
Whichever side the group has moved on since then is followed by the other one.

| source    | target    | action                                                                                       |
|-----------|-----------|----------------------------------------------------------------------------------------------|
| moved     | unchanged | the target follows, also back, when the group was reset                                      |
| unchanged | moved     | the source follows, but only forward: the group has moved to the target, and may move back   |
| moved     | moved     | the one that is behind follows the other one                                                 |
| unchanged | unchanged | the target follows if the translation has become better, such as after records were copied   |

An offset is never committed for a group that has members there. Without a checkpoint, an offset of the target counts as
moved, so that it does not go back.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pylogbroker.mirror.offset_translation import TranslatedOffset
from pylogbroker.mirror_records.formats import Checkpoint


class Translation(Protocol):
    """Translates offsets of one partition, as `PartitionTranslation` does."""

    def downstream(self, upstream: int) -> TranslatedOffset | None: ...

    def upstream(self, downstream: int) -> TranslatedOffset | None: ...


@attrs.frozen
class PairedOffsets:
    """Committed offsets of a group in one partition; None without one."""

    source: int | None
    target: int | None
    checkpoint: Checkpoint | None = None


@attrs.frozen
class GroupAction:
    """Offsets to commit in either cluster; None: none. `upstream` and `downstream` make the next checkpoint."""

    upstream: int
    downstream: int
    to_target: int | None = None
    to_source: int | None = None


def action_for(
    offsets: PairedOffsets, translation: Translation, *, may_change_source: bool, may_change_target: bool
) -> GroupAction | None:
    """Return what to do; None if the offsets agree, or cannot be translated."""
    if offsets.source is None:
        return _moved_back(offsets, translation) if may_change_source else None
    translated = translation.downstream(offsets.source)
    if translated is None:
        return None
    forward = _not_before_last(offsets, translated)
    if _follows_source(offsets, forward):
        to_target = forward if may_change_target and forward != offsets.target else None
        if to_target is None and _is_checkpoint(offsets.checkpoint, offsets.source, forward):
            return None
        return GroupAction(offsets.source, forward, to_target=to_target)
    if may_change_source and (action := _moved_back(offsets, translation)) is not None:
        return action
    if offsets.checkpoint is None or offsets.checkpoint.upstream != offsets.source:
        return GroupAction(offsets.source, forward)
    return None


def _not_before_last(offsets: PairedOffsets, translated: TranslatedOffset) -> int:
    """Return a translated offset, but not one before the last checkpoint only because it is less exact than that."""
    last = offsets.checkpoint
    if translated.is_exact or last is None or offsets.source is None or offsets.source < last.upstream:
        return translated.offset
    return max(translated.offset, last.downstream)


def _follows_source(offsets: PairedOffsets, forward: int) -> bool:
    last = offsets.checkpoint
    if offsets.target is None:
        return True
    is_target_moved = last is None or offsets.target != last.downstream
    is_source_moved = last is None or offsets.source != last.upstream
    if is_target_moved:
        return is_source_moved and forward >= offsets.target
    return is_source_moved or forward > offsets.target


def _moved_back(offsets: PairedOffsets, translation: Translation) -> GroupAction | None:
    """Return the action for a group that has moved on in the target alone, or further there."""
    last = offsets.checkpoint
    if last is None or offsets.target is None or offsets.target == last.downstream:
        return None
    back = translation.upstream(offsets.target)
    if back is None or (offsets.source is not None and back.offset <= offsets.source):
        return None
    return GroupAction(back.offset, offsets.target, to_source=back.offset)


def _is_checkpoint(checkpoint: Checkpoint | None, upstream: int, downstream: int) -> bool:
    return checkpoint is not None and (checkpoint.upstream, checkpoint.downstream) == (upstream, downstream)
