"""Pieces of a log that several share fetches read: parts of them, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pylogbroker.broker.share import record_batches
from pylogbroker.broker.share.record_batches import RecentPieces, _Aborted, read_piece
from pylogbroker.groups.share.values import AcquiredRecords, LogBatch
from pylogbroker.records import Record, build, entries
from pylogbroker.storage.log.transaction_index import AbortedTxn
from tests.storage.support import NOW, open_log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Any]:
    """Return a log of 40 batches of one to five records, which differ in size."""
    made = open_log(tmp_path / "events_0")
    random = Random(1)
    for _ in range(40):
        count = random.randint(1, 5)
        made.append(build([Record(0, NOW, None, bytes(random.randint(10, 400))) for _ in range(count)]), NOW)
    made.high_watermark = made.log_end_offset
    yield made
    made.close()


def stored(log: Any) -> list[tuple[int, int, bytes]]:
    """Return first and last offset of each batch, and its bytes."""
    region = log.read(0, 1 << 20, upto=log.log_end_offset)
    return [(entry.base_offset, entry.last_offset, bytes(entry.buffer)) for entry in entries(region.read())]


def test_parts_of_a_piece_are_what_a_read_of_the_log_returns(log: Any) -> None:
    random, batches = Random(2), stored(log)
    piece = read_piece(log, 0, is_committed=False)
    assert piece is not None
    for _ in range(300):
        offset, bytes_max, min_one = random.randrange(log.log_end_offset), random.randrange(4000), random.random() < 0.5
        region = log.read(offset, bytes_max, upto=log.log_end_offset, min_one=min_one)
        part = piece.part(offset, bytes_max, min_one=min_one)
        if region is None:
            assert part is None
            continue
        assert part is not None
        assert bytes(part.data) == region.read()
        assert part.next_offset == region.next_offset
        expected = [(first, last) for first, last, _ in batches if offset <= last and last < region.next_offset]
        assert [(batch.first, batch.last) for batch in part.batches] == expected


def test_answer_has_the_batches_with_acquired_records_alone(log: Any) -> None:
    random, batches = Random(3), stored(log)
    piece = read_piece(log, 0, is_committed=False)
    assert piece is not None
    for _ in range(300):
        bounds = sorted(random.sample(range(log.log_end_offset), 6))
        acquired = [AcquiredRecords(first, last, 1) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
        expected = [
            data for first, last, data in batches if any(got.first <= last and first <= got.last for got in acquired)
        ]
        chunks = piece.of_acquired(acquired)
        assert b"".join(map(bytes, chunks)) == b"".join(expected)
        assert sum(map(len, chunks)) < len(piece.data)


def test_log_is_read_once_for_the_fetches_of_a_piece(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    real = record_batches.read_piece

    def counted(log: Any, offset: int, **more: Any) -> Any:
        reads.append(offset)
        return real(log, offset, **more)

    monkeypatch.setattr(record_batches, "read_piece", counted)
    pieces, offset = RecentPieces(), 0
    while (part := pieces.read("reader", log, offset, 500, is_committed=False, min_one=True)) is not None:
        offset = part.next_offset
    assert offset == log.log_end_offset
    assert reads == [0, offset]


def test_other_isolation_and_new_records_are_read_again(log: Any) -> None:
    pieces, end = RecentPieces(), log.log_end_offset

    def read(offset: int, is_committed: bool) -> tuple[bool, int] | None:
        part = pieces.read("reader", log, offset, 1 << 20, is_committed=is_committed, min_one=True)
        return None if part is None else (part.is_committed, part.next_offset)

    assert read(0, False) == (False, end)
    assert read(0, True) == (True, end)
    assert read(end, True) is None
    log.append(build([Record(0, NOW, None, b"new")]), NOW)
    assert read(end, True) is None
    log.high_watermark = end + 1
    assert read(end, True) == (True, end + 1)


def test_kept_pieces_are_bounded(log: Any) -> None:
    pieces = RecentPieces()
    for reader in range(3 * record_batches.PIECES_MAX):
        pieces.read(reader, log, 0, 1, is_committed=False, min_one=True)
    assert len(pieces) == record_batches.PIECES_MAX


def test_long_piece_ends_with_a_batch(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "PIECE_BATCHES_MAX", 3)
    piece = read_piece(log, 0, is_committed=False)
    first_three = stored(log)[:3]
    assert piece is not None
    assert piece.batches == [LogBatch(first, last) for first, last, _ in first_three]
    assert bytes(piece.data) == b"".join(data for *_, data in first_three)
    assert piece.next_offset == first_three[-1][1] + 1


def test_aborted_records_are_those_between_the_offsets_of_their_producer() -> None:
    random = Random(4)
    transactions, offset = [], 0
    for _ in range(200):
        offset += random.randint(1, 5)
        first, offset = offset, offset + random.randint(0, 5)
        transactions.append((random.randrange(3), first, offset))
    random.shuffle(transactions)
    aborted = _Aborted.of(AbortedTxn(*transaction, offset) for transaction in transactions)
    for producer_id in range(4):
        for offset in range(1_000):
            expected = any(owner == producer_id and first <= offset <= last for owner, first, last in transactions)
            assert aborted.has(producer_id, offset) == expected
