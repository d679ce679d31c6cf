"""The judge of a compacted log is shown logs with one fault each, and must name it; and one with none."""

from __future__ import annotations

import struct

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.crash.compacted import STAMP, CompactedLog, Written
from tests.crash.history import UNANSWERED
from tests.crash.stamps import Stamp, value_of

#: Key and whether it deletes, of a writer's records in order; all are acknowledged, each at ten times its number.
SENT = [(b"a", False), (b"b", False), (b"a", False), (b"b", True), (b"c", False), (b"a", False)]
STAYS = {4: 40, 5: 50}  # when all is compacted: sequence number and offset


def written(*, unanswered: frozenset[int] = frozenset()) -> Written:
    one = Written()
    for number, (key, deletes) in enumerate(SENT):
        assert one.begin(key, deletes) == number
        one.offsets[number] = UNANSWERED if number in unanswered else 10 * number
    return one


def log_of(places: dict[int, int]) -> bytes:
    """A log that holds these records."""
    return b"".join(entry(offset, *SENT[number], number) for number, offset in places.items())


def entry(offset: int, key: bytes, deletes: bool, number: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, 1, 0, number, 1 << 20)
    stamp = value_of(Stamp("writer", "topic", 0, number))
    builder.append(0, 1_700_000_000_000, key, None if deletes else b"value", [(STAMP, stamp)])
    return struct.pack(">q", offset) + bytes(builder.build())[8:]


def judged(data: bytes, one: Written, log: CompactedLog | None = None) -> set[str]:
    log = log or CompactedLog()
    log.read(data)
    return {violation.kind for violation in log.check({"writer": one})}


@pytest.mark.parametrize(
    "there",
    [
        {number: 10 * number for number in range(6)},  # nothing is compacted yet
        {2: 20, 3: 30, 4: 40, 5: 50},
        {3: 30, **STAYS},
        STAYS,  # what deleted b is gone, too
    ],
)
def test_valid_compacted_logs_are_accepted(there: dict[int, int]) -> None:
    assert judged(log_of(there), written()) == set()


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        ({4: 40}, "lost"),  # the last of a
        ({2: 20, 4: 40}, "lost"),  # ... though one before is there
        ({5: 50}, "lost"),  # the only one of c
        ({1: 10, **STAYS}, "risen"),
        ({4: 41, 5: 50}, "moved"),
        ({5: 40, 4: 50}, "order"),
        ({4: 40, 5: 40}, "damaged"),
        ({5: 50, 4: 40}, "damaged"),
    ],
)
def test_faults(there: dict[int, int], wrong: str) -> None:
    assert wrong in judged(log_of(there), written())


def test_unanswered_records_may_be_present_or_absent() -> None:
    assert judged(log_of({2: 20, 3: 30, 4: 40}), written(unanswered=frozenset({5}))) == set()
    assert judged(log_of({3: 30, **STAYS}), written(unanswered=frozenset({5}))) == set()
    assert judged(log_of({4: 40, 5: 50}), written(unanswered=frozenset({3}))) == set()


def test_a_record_stays_where_it_was_seen() -> None:
    log, one = CompactedLog(), written(unanswered=frozenset({5}))
    assert judged(log_of({**STAYS}), one, log) == set()
    assert judged(log_of({4: 40, 5: 51}), one, log) == {"moved"}


def test_records_of_others() -> None:
    one = written()
    assert judged(log_of(STAYS) + entry(60, b"a", False, 6), one) == {"foreign"}
    assert judged(entry(40, b"c", False, 4) + entry(50, b"b", False, 5), one) >= {"foreign"}
    log = CompactedLog()
    log.read(log_of(STAYS))
    assert "foreign" in {violation.kind for violation in log.check({})}


def test_damage() -> None:
    data = log_of(STAYS)
    assert "damaged" in judged(data[:-1] + bytes([data[-1] ^ 1]), written())
