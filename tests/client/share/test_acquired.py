"""Answers of share fetches: acquired records, gaps, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.share.acknowledgements import AcquiredPartition
from pylogbroker.client.share.acquired import ROWS_PER_STEP, AcquiredUnpacker
from pylogbroker.errors import CorruptRecords, KafkaError
from pylogbroker.long_loops import at_once, give_way
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.share_fetch import AcquiredRange, ShareFetchPartitionData

GAP, RELEASE = 0, 2


def batch(*offsets: int) -> bytes:
    records = [Record(offset, 1000, key=None, value=b"v%d" % offset) for offset in offsets]
    return build(records, base_offset=None)


def unpack(
    data: bytes, *ranges: tuple[int, int, int], decode: Any = None
) -> tuple[list[tuple[int, int]], list[Exception], list[tuple[int, int, int]]]:
    """Return offsets with delivery counts, errors, and what is acknowledged at once."""
    acquired = AcquiredPartition()
    answer = ShareFetchPartitionData(3, records=data, acquired_records=[AcquiredRange(*some) for some in ranges])
    messages, errors = at_once(AcquiredUnpacker(None, decode, True)("t", answer, acquired, give_way))
    sent = [(some.first_offset, some.last_offset, some.acknowledge_types[0]) for some in acquired.take()]
    return [(message.offset, message.delivery_count) for message in messages], list(errors), sent


def test_only_acquired_records_are_messages() -> None:
    data = batch(0, 1, 2, 3) + batch(4, 5, 6, 7)
    assert unpack(data, (5, 6, 2), (1, 2, 1)) == ([(1, 1), (2, 1), (5, 2), (6, 2)], [], [])
    assert unpack(data) == ([], [], [])


def test_offsets_without_a_record_are_gaps() -> None:
    data = batch(0, 1, 4) + batch(7, 9)
    found = unpack(data, (0, 9, 1))
    assert found == ([(0, 1), (1, 1), (4, 1), (7, 1), (9, 1)], [], [(2, 3, GAP), (5, 6, GAP), (8, 8, GAP)])
    assert unpack(data, (2, 3, 1), (5, 6, 1)) == ([], [], [(2, 3, GAP), (5, 6, GAP)])


@pytest.mark.parametrize("cut", [0, 1, 60])
def test_records_that_are_not_in_the_answer_are_released(cut: int) -> None:
    whole = batch(0, 1)
    data = whole + batch(2, 3)[:cut]
    assert unpack(data, (0, 2**62, 1)) == ([(0, 1), (1, 1)], [], [(2, 2**62, RELEASE)])
    assert unpack(b"", (0, 3, 1)) == ([], [], [(0, 3, RELEASE)])


def test_damaged_records_are_released() -> None:
    damaged = bytearray(batch(2, 3))
    damaged[-1] ^= 1
    messages, [error], sent = unpack(batch(0, 1) + bytes(damaged), (0, 3, 1), (5, 6, 2))
    assert isinstance(error, CorruptRecords)
    assert (messages, sent) == ([(0, 1), (1, 1)], [(2, 3, RELEASE), (5, 6, RELEASE)])


def test_a_message_that_cannot_be_decoded_is_released() -> None:
    def decode(value: bytes | None) -> str:
        if value == b"v1":
            raise PluginFailed("decoder", "no text")
        return "text"

    messages, [error], sent = unpack(batch(0, 1, 2), (0, 2, 1), decode=decode)
    assert "t/3@1" in str(error)
    assert (messages, sent) == ([(0, 1), (2, 1)], [(1, 1, RELEASE)])


@pytest.mark.parametrize("ranges", [[(5, 4, 1)], [(0, 3, 1), (3, 4, 1)], [(-2, 3, 1)]])
def test_ranges_that_contradict_themselves_are_an_error(ranges: list[tuple[int, int, int]]) -> None:
    with pytest.raises(KafkaError, match="invalid acquired offsets"):
        unpack(batch(0, 1), *ranges)


def test_many_records_are_unpacked_in_steps() -> None:
    pauses: list[None] = []

    async def pause() -> None:
        pauses.append(None)

    count = 3 * ROWS_PER_STEP + 1
    answer = ShareFetchPartitionData(3, records=batch(*range(count)), acquired_records=[AcquiredRange(0, count - 1, 1)])
    messages, errors = at_once(AcquiredUnpacker(None, None, True)("t", answer, AcquiredPartition(), pause))
    assert (len(messages), errors, len(pauses)) == (count, [], 3)
