"""Places where records begin and end that a request asks for, and positions to go on from.

earliest              the first record of each partition
latest                behind the last committed record of each partition
2026-01-31T12:00      the first record since a time, in UTC unless it says
@1764314899117        the same, in milliseconds since 1970
-10                   the last ten offsets of each partition
0:17,1:4              offset 17 of partition 0, offset 4 of partition 1, and no other partition
0:17,1:4,*            and all other partitions, also later ones, from their first record
17                    offset 17, of the partition that `partition` names
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.offsets import offsets_at
from pylogbroker.web.parameters import INT32_MAX, milliseconds
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import NUMBER_MAX, whole_number
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import EARLIEST as FIRST_OFFSET
from pylogbroker.wire.messages.list_offsets import LATEST as END_OFFSET

Positions = Mapping[int, int]
"""Offsets by partition."""
PlaceText = Annotated[
    str, "earliest, latest, a time, @ and milliseconds, -N for the last N offsets, or positions such as 0:17,1:4"
]
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
PARTITIONS_MAX: Final = 500
"""Partitions that one request reads: their positions must fit into the address of the next one."""

_OTHERS: Final = ",*"
"""Ends positions that go on with all other partitions, too."""
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*(,\*)?")
_LAST: Final = re.compile(r"-\d+")


def has_others(text: str) -> bool:
    """Return whether a place is one in all partitions of a topic, also in those that are added later."""
    text = text.strip()
    return text.endswith(_OTHERS) or _OFFSETS.fullmatch(text) is None


def positions_text(positions: Positions, has_all: bool = False) -> str:
    """Return positions as a parameter; `has_all` lets it go on with partitions that are added."""
    rows = ",".join(f"{index}:{offset}" for index, offset in sorted(positions.items()))
    return rows + _OTHERS if has_all else rows


def chosen_partitions(visitor: Visitor, topic: str, index: int | None) -> Sequence[int]:
    """Return the partitions of a topic that the visitor may read, or the one that is named; raise KafkaError."""
    visitor.check(AclOperation.READ, AclResourceType.TOPIC, topic)
    partitions = visitor.services.metadata.require_topic(topic).partitions
    if index is not None:
        if index not in partitions:
            raise KafkaError(
                f"{topic} has no partition {index}: it has {len(partitions)}, from 0 on",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        return [index]
    led = led_partitions(visitor.services, topic)
    if not led:
        raise KafkaError(f"no partition of {topic} has a leader now: try again", ErrorCode.LEADER_NOT_AVAILABLE)
    if len(led) > PARTITIONS_MAX:
        raise BadRequest(f"partition is missing: {topic} has more than {PARTITIONS_MAX} partitions")
    return led


def led_partitions(services: Services, topic: str) -> Sequence[int]:
    """Return the partitions of a topic that have a leader; none of one that is deleted."""
    image = services.metadata.topics.get(topic)
    return [] if image is None else sorted(index for index, row in image.partitions.items() if row.leader != NO_LEADER)


async def resolve(visitor: Visitor, topic: str, indexes: Sequence[int], text: str, name: str) -> Positions:
    """Return the positions that a text names; raise BadRequest or KafkaError. `name` is that of the parameter."""
    text = text.strip()
    if _OFFSETS.fullmatch(text):
        return named_positions(visitor, topic, text, name)
    if (offset := whole_number(text)) is not None and offset >= 0:
        if len(indexes) > 1:
            raise BadRequest(
                f"{name}={text} does not say of which partition: write {indexes[0]}:{text}, or name one by partition=; "
                f"@{text} is a time in milliseconds",
                name,
            )
        return dict.fromkeys(indexes, offset)
    if _LAST.fullmatch(text):
        count = min(-int(text[:19]), NUMBER_MAX)
        starts = await _at(visitor, topic, indexes, FIRST_OFFSET)
        ends = await _at(visitor, topic, indexes, END_OFFSET)
        return {index: max(starts[index], end - count) for index, end in ends.items()}
    if text in (EARLIEST, LATEST):
        return await _at(visitor, topic, indexes, FIRST_OFFSET if text == EARLIEST else END_OFFSET)
    offsets = await _at(visitor, topic, indexes, _time(text, name))
    if min(offsets.values()) >= 0:
        return offsets
    ends = await _at(visitor, topic, indexes, END_OFFSET)
    return {index: ends[index] if offset < 0 else min(offset, ends[index]) for index, offset in offsets.items()}


def _time(text: str, name: str) -> int:
    number = whole_number(text[1:]) if text.startswith("@") else None
    if number is not None and number >= 0:
        return min(number, NUMBER_MAX)
    try:
        if not text.startswith("@"):
            return milliseconds(text)
    except BadRequest:
        pass
    raise BadRequest(
        f"{name} must be earliest, latest, a time like 2026-01-31T12:00, @ and milliseconds since 1970, -N for the "
        f"last N offsets, or positions like 0:17,1:4, not {text[:60]!r}",
        name,
    )


def named_positions(visitor: Visitor, topic: str, text: str, name: str) -> Positions:
    """Return positions that are written as such; raise BadRequest or KafkaError."""
    if not _OFFSETS.fullmatch(text.strip()):
        raise BadRequest(f"{name} must be positions like 0:17,1:4, not {text[:60]!r}", name)
    partitions = visitor.services.metadata.require_topic(topic).partitions
    positions: dict[int, int] = {}
    for pair in text.strip().removesuffix(_OTHERS).split(","):
        left, _, right = pair.partition(":")
        index, offset = whole_number(left), whole_number(right)
        if index is None or index > INT32_MAX or offset is None or offset > NUMBER_MAX:
            raise BadRequest(f"{name} has a number that is too large: {pair[:60]}", name)
        if index in positions:
            raise BadRequest(f"{name} has partition {index} twice", name)
        if index not in partitions:
            raise KafkaError(
                f"{topic} has no partition {index}: it has {len(partitions)}, from 0 on",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        positions[index] = offset
        if len(positions) > PARTITIONS_MAX:
            raise BadRequest(f"{name} has more than {PARTITIONS_MAX} partitions", name)
    return positions


async def _at(visitor: Visitor, topic: str, indexes: Sequence[int], timestamp: int) -> dict[int, int]:
    keys = [(topic, index) for index in indexes]
    offsets = await offsets_at(visitor, keys, timestamp, is_committed=True)
    return {index: offset for (_, index), offset in offsets.items()}
