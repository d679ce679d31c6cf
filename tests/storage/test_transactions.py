"""Transactions in one log: begin and end, errors, and the aborted transactions for readers of committed records.

The bytes of index files are taken apart with `struct` after Kafka's layout, markers are laid out by hand, and damage is
done to the files themselves.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode, KafkaError, StorageFailure
from pylogbroker.storage import Log, LogConfig, NotCached, Origin
from tests.broker.failing_disks import PageCache, broken
from tests.storage.support import NOW, batch, expired, marker, open_log, reopen

COMMITTED, ABORTED = True, False
CHECKPOINT = "aborted-transaction-checkpoint"


def put(log: Log, producer_id: int, sequence: int, count: int = 1, epoch: int = 0, transactional: bool = True) -> int:
    """Append a batch of a producer; its first offset."""
    data = batch([b"v"] * count, producer=(producer_id, epoch, sequence), transactional=transactional)
    base = log.append(data, NOW).base_offset
    log.high_watermark = log.log_end_offset
    return base


def end(log: Log, committed: bool, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """Append a marker; its offset."""
    data = marker(committed, producer_id, epoch, coordinator_epoch)
    base = log.append(data, NOW, origin=Origin.COORDINATOR).base_offset
    log.high_watermark = log.log_end_offset
    return base


def error(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def reported(log: Log, first: int = 0, upto: int | None = None) -> list[tuple[int, int, int]]:
    """Producer, first and last offset of each aborted transaction that a reader gets."""
    upto = log.last_stable_offset if upto is None else upto
    return [tuple(found[:3]) for found in log.aborted_transactions(first, upto)]


def index_files(log: Log) -> dict[int, list[tuple[int, ...]]]:
    """Return the contents of the index files, by base offset."""
    return {
        int(path.stem): list(struct.iter_unpack(">hqqqq", path.read_bytes()))
        for path in Path(log.path).glob("*.txnindex")
    }


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "events_0")


# The last stable offset


def test_an_open_transaction_holds_readers_back(log: Log) -> None:
    put(log, 1, 0, transactional=False)
    assert log.last_stable_offset == 1
    put(log, 2, 0)
    put(log, 1, 1)
    put(log, 2, 1)
    assert log.last_stable_offset == 1
    end(log, COMMITTED, 2)
    assert log.last_stable_offset == 2
    put(log, 1, 2)
    end(log, ABORTED, 1)
    assert log.last_stable_offset == log.log_end_offset == 7


@pytest.mark.parametrize("committed", [COMMITTED, ABORTED])
def test_a_marker_counts_once_readers_may_see_it(log: Log, committed: bool) -> None:
    log.append(batch(producer=(1, 0, 0), transactional=True), NOW)
    log.append(marker(committed, 1), NOW, origin=Origin.COORDINATOR)
    log.append(batch(producer=(2, 0, 0), transactional=True), NOW)
    log.append(marker(COMMITTED, 2), NOW, origin=Origin.COORDINATOR)
    for high_watermark, stable in ((0, 0), (1, 0), (2, 2), (3, 2), (4, 4)):
        log.high_watermark = high_watermark
        assert log.last_stable_offset == stable, high_watermark


def test_a_transaction_older_than_the_log(log: Log) -> None:
    put(log, 1, 0)
    put(log, 1, 1)
    log.delete_records_before(1)
    assert log.last_stable_offset == 1


def test_a_log_without_readers_forgets_ended_transactions(log: Log) -> None:
    for number in range(50):
        put(log, 1, number)
        end(log, COMMITTED, 1)
    assert len(log.producers._ended) <= 1


# Errors


def test_markers_of_old_epochs(log: Log) -> None:
    put(log, 1, 0, epoch=3)
    assert error(lambda: end(log, ABORTED, 1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, ABORTED, 1, epoch=3, coordinator_epoch=5)
    assert (
        error(lambda: end(log, COMMITTED, 1, epoch=3, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert log.log_end_offset == 2
    end(log, COMMITTED, 1, epoch=3, coordinator_epoch=5)
    end(log, COMMITTED, 2, epoch=0, coordinator_epoch=0)  # each producer has its own


def test_a_marker_of_a_new_epoch_shuts_the_old_one_out(log: Log) -> None:
    put(log, 1, 0, epoch=3)
    end(log, ABORTED, 1, epoch=4)
    assert log.last_stable_offset == 2
    assert error(lambda: put(log, 1, 1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(lambda: put(log, 1, 1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(log, 1, 0, epoch=4)
    assert log.last_stable_offset == 2


def test_sequence_numbers_go_on_behind_a_marker(log: Log) -> None:
    put(log, 1, 0, count=3)
    end(log, COMMITTED, 1)
    assert error(lambda: put(log, 1, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(log, 1, 3)


def test_non_transactional_batches_in_a_transaction_are_rejected(log: Log) -> None:
    put(log, 1, 0)
    assert error(lambda: put(log, 1, 1, transactional=False)) is ErrorCode.INVALID_TXN_STATE
    offsets = batch([b"v"], producer=(1, 0, -1))
    assert error(lambda: log.append(offsets, NOW, origin=Origin.COORDINATOR)) is ErrorCode.INVALID_TXN_STATE
    put(log, 1, 1)
    end(log, COMMITTED, 1)
    put(log, 1, 2, transactional=False)


def test_a_batch_sent_again_within_a_transaction(log: Log) -> None:
    first = put(log, 1, 0, count=2)
    put(log, 1, 2)
    assert put(log, 1, 0, count=2) == first
    end(log, COMMITTED, 1)
    assert put(log, 1, 0, count=2) == first
    assert log.last_stable_offset == log.log_end_offset == 4


def test_control_batches_of_clients(log: Log) -> None:
    assert error(lambda: log.append(marker(COMMITTED, 1), NOW)) is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


def test_a_transaction_that_began_before_a_format_downgrade_can_end(log: Log) -> None:
    put(log, 1, 0)
    put(log, 2, 0)
    log.config = LogConfig(magic=1)
    end(log, ABORTED, 1)
    end(log, COMMITTED, 2)
    assert (log.last_stable_offset, reported(log)) == (4, [(1, 0, 2)])
    assert error(lambda: end(log, COMMITTED, 2)) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_markers_that_end_nothing_are_appended(log: Log) -> None:
    assert [end(log, ABORTED, 9), end(log, COMMITTED, 9)] == [0, 1]
    put(log, 1, 0, transactional=False)
    end(log, ABORTED, 1)
    assert log.last_stable_offset == 4
    assert reported(log) == []
    log.close()
    assert index_files(log) == {}


def test_offsets_that_a_coordinator_writes_have_no_sequence(log: Log) -> None:
    for _ in range(2):
        offsets = batch([b"v"], producer=(1, 0, -1), transactional=True)
        log.append(offsets, NOW, origin=Origin.COORDINATOR)
    log.high_watermark = 2
    assert log.last_stable_offset == 0
    end(log, ABORTED, 1)
    assert reported(log) == [(1, 0, 2)]


def test_open_transactions_are_known_by_producer_and_epoch(log: Log) -> None:
    put(log, 1, 0, epoch=2)
    put(log, 2, 0, transactional=False)
    states = log.producers
    assert [states.is_in_transaction(*who) for who in ((1, 2), (1, 1), (1, 3), (2, 0), (3, 0))] == [True] + 4 * [False]
    end(log, COMMITTED, 1, epoch=2)
    assert not states.is_in_transaction(1, 2)


# Aborted transactions


def filled(path: Path) -> Log:
    """Three segments.

    0  1  2  3  4  | 5  6  7  8  | 9  10 11 12 13
    1  2  1  a1 3  | 2  a2 3  1  | a3 2  a1 4  c2       a: abort marker, c: commit marker
    """
    log = open_log(path, LogConfig(flush_messages=10**9))
    put(log, 1, 0)
    put(log, 2, 0)
    put(log, 1, 1)
    end(log, ABORTED, 1)
    put(log, 3, 0)
    log.roll(NOW)
    put(log, 2, 1)
    end(log, ABORTED, 2)
    put(log, 3, 1)
    put(log, 1, 2)
    log.roll(NOW)
    end(log, ABORTED, 3)
    put(log, 2, 2)
    end(log, ABORTED, 1)
    put(log, 4, 0, transactional=False)
    end(log, COMMITTED, 2)
    return log


ALL = [(1, 0, 3), (2, 1, 6), (3, 4, 9), (1, 8, 11)]


def test_the_index_files(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.close()
    assert index_files(log) == {
        0: [(0, 1, 0, 3, 1)],
        5: [(0, 2, 1, 6, 4)],
        9: [(0, 3, 4, 9, 8), (0, 1, 8, 11, 10)],
    }


def test_aborted_transactions_are_listed_by_overlap_with_the_range(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    assert log.last_stable_offset == 14
    for first in range(14):
        for upto in range(first + 1, 15):
            wanted = [found for found in ALL if found[2] >= first and found[1] < upto]
            assert reported(log, first, upto) == wanted, (first, upto)


def test_many_aborted_transactions_of_one_segment(log: Log) -> None:
    for number in range(1100):  # more than are kept in memory
        put(log, 1, number)
        end(log, ABORTED, 1)
    assert len(reported(log)) == 1100
    for first in (0, 1, 777, 1999, 2047, 2048, 2049, 2100, 2199):
        assert reported(log, first, first + 3) == [
            (1, start, start + 1) for start in range(first - first % 2, min(first + 3, 2200), 2)
        ]
    log = reopen(log)
    assert len(reported(log, 5, 2200)) == 1098
    log.truncate_to(1501)
    assert reported(log, 1497, 1501) == [(1, 1496, 1497), (1, 1498, 1499)]
    assert index_files(log)[0][-1] == (0, 1, 1498, 1499, 1500)


def test_the_search_ends_where_all_is_known(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.close()
    log = reopen(log)
    os.unlink(f"{log.path}/{9:020}.txnindex")  # is not looked at
    assert reported(log, 0, 4) == [(1, 0, 3), (2, 1, 6)]
    with pytest.raises(StorageFailure):
        reported(log, 0, 5)


def test_an_index_that_cannot_be_written_now_is_written_later(log: Log) -> None:
    put(log, 1, 0)

    def fault(real: Callable[..., int], fd: int, *arguments: Any) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".txnindex"):
            raise OSError(errno.ENOSPC, "no room")
        return real(fd, *arguments)

    with broken("pwritev", log.path, fault):
        for number in range(1, 1100):
            end(log, ABORTED, 1)
            put(log, 1, number)
    assert len(reported(log, 0, log.log_end_offset)) == 1099
    log.close()
    assert len(index_files(log)[0]) == 1099


# What a start finds


def damage(path: str, base: int, how: str) -> None:
    name = f"{path}/{base:020}.txnindex"
    match how:
        case "missing":
            os.unlink(name)
        case "empty":
            os.truncate(name, 0)
        case "short":
            os.truncate(name, os.path.getsize(name) - 34)
        case "torn":
            os.truncate(name, os.path.getsize(name) - 1)
        case "longer":
            with open(name, "ab") as file:
                file.write(struct.pack(">hqqqq", 0, 4, 12, 13, 14))
        case "stale":
            with open(name, "wb") as file:
                file.write(struct.pack(">hqqqq", 0, 4, base, base + 1, base))
        case "noise":
            with open(name, "wb") as file:
                file.write(os.urandom(68))


DAMAGE = ["missing", "empty", "short", "torn", "longer", "stale", "noise"]


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("base", [0, 5, 9])
@pytest.mark.parametrize("stop", ["clean", "kill", "kill after a sync"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, stop: str, base: int, how: str) -> None:
    log = filled(tmp_path / "events_0")
    if stop == "clean":
        log.close()
    elif stop == "kill after a sync":
        log.sync()
    written = index_files(log)
    if base in written:
        damage(log.path, base, how)
    log = open_log(log.path, log.config, clean=stop == "clean", recovery_point=log.recovery_point)
    log.high_watermark = log.log_end_offset
    assert reported(log) == ALL
    assert log.last_stable_offset == 14
    log.close()
    assert index_files(log) == {0: [(0, 1, 0, 3, 1)], 5: [(0, 2, 1, 6, 4)], 9: [(0, 3, 4, 9, 8), (0, 1, 8, 11, 10)]}


def test_every_flipped_byte_of_an_index_is_noticed(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.close()
    name = Path(log.path, f"{9:020}.txnindex")
    whole = name.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        name.write_bytes(damaged)
        log = open_log(log.path, log.config, clean=True, recovery_point=14)
        assert name.read_bytes() == whole, place


@pytest.mark.parametrize("how", ["missing", "noise"])
def test_without_the_checkpoint_damaged_indexes_are_rebuilt(tmp_path: Path, how: str) -> None:
    log = filled(tmp_path / "events_0")
    log.close()
    checkpoint = Path(log.path, CHECKPOINT)
    if how == "missing":
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(b"\xff\0noise")
    damage(log.path, 5, "torn")
    damage(log.path, 9, "noise")
    log = open_log(log.path, log.config, clean=True, recovery_point=14)
    assert reported(log, 0, 14) == ALL
    log.close()
    assert checkpoint.read_text().startswith("0\n3\n0 1 ")


def test_a_log_without_aborted_transactions_has_no_checkpoint(log: Log) -> None:
    put(log, 1, 0)
    end(log, COMMITTED, 1)
    log.roll(NOW)
    log.sync()
    log.close()
    assert not Path(log.path, CHECKPOINT).exists()
    assert index_files(log) == {}


def test_an_open_transaction_is_remembered_over_restarts(log: Log) -> None:
    put(log, 2, 0)
    put(log, 1, 0)
    end(log, COMMITTED, 2, coordinator_epoch=6)
    for _ in range(2):
        log = reopen(log)
        log.high_watermark = 3
        assert log.last_stable_offset == 1
        assert error(lambda log=log: end(log, COMMITTED, 2, coordinator_epoch=5)) is (  # type: ignore[misc]
            ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
    log = open_log(log.path)  # killed: the entries decide
    log.high_watermark = 3
    assert log.last_stable_offset == 1
    end(log, ABORTED, 1)
    assert reported(log) == [(1, 1, 3)]


def test_without_snapshots_the_entries_decide(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.close()
    for path in Path(log.path).glob("*.snapshot"):
        path.unlink()
    damage(log.path, 9, "missing")
    log = open_log(log.path, log.config, clean=True, recovery_point=14)
    assert reported(log, 0, 14) == ALL


def test_a_cut_that_recovery_makes_opens_a_transaction_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    os.truncate(f"{log.path}/{9:020}.kafka", os.path.getsize(f"{log.path}/{9:020}.kafka") - 200)
    log = open_log(log.path, log.config)
    log.high_watermark = log.log_end_offset
    assert (log.log_end_offset, log.last_stable_offset) == (11, 8)
    assert reported(log, 0, 8) == ALL[:3]


# Cutting, deleting, following


def test_truncated_transactions_are_forgotten(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.truncate_to(11)
    assert (log.last_stable_offset, reported(log)) == (8, ALL[:3])
    log.truncate_to(9)
    assert (log.last_stable_offset, reported(log)) == (4, ALL[:2])
    log.truncate_to(6)
    assert (log.last_stable_offset, reported(log)) == (1, ALL[:1])
    end(log, COMMITTED, 2)
    assert (log.last_stable_offset, reported(log)) == (4, ALL[:1])
    log.truncate_to(3)
    assert (log.last_stable_offset, reported(log, 0, 3)) == (0, [])


def test_a_cut_does_not_let_readers_see_more(log: Log) -> None:
    put(log, 1, 0)
    log.append(marker(ABORTED, 1), NOW, origin=Origin.COORDINATOR)
    log.roll(NOW)
    put(log, 2, 0, transactional=False)
    put(log, 2, 1, transactional=False)
    log.high_watermark = 1
    log.truncate_to(3)
    assert log.last_stable_offset == 0
    log.high_watermark = 3
    assert log.last_stable_offset == 3


def test_an_index_goes_with_its_segment(tmp_path: Path) -> None:
    log = filled(tmp_path / "events_0")
    log.delete_records_before(6)
    for deleted in expired(log, NOW):
        deleted.unlink()
    assert reported(log, 6) == ALL[1:]
    assert list(index_files(log)) == [5]
    log = reopen(log)
    assert reported(log, 6, 14) == ALL[1:]
    for deleted in log.restart_at(20, NOW):
        deleted.unlink()
    assert reported(log, 20, 30) == []
    assert index_files(log) == {}


def test_a_log_that_restarts_knows_no_transactions(log: Log) -> None:
    put(log, 1, 0)
    log.append(batch(producer=(2, 0, 0), transactional=True), NOW)
    log.append(marker(ABORTED, 2), NOW, origin=Origin.COORDINATOR)
    log = reopen(log)
    log.append(batch(producer=(3, 0, 0), transactional=True), NOW)
    log.append(marker(ABORTED, 3), NOW, origin=Origin.COORDINATOR)
    log.restart_at(20, NOW)
    log.append(batch(), NOW)
    log.high_watermark = 21
    assert (log.last_stable_offset, len(log.producers)) == (21, 0)
    log = reopen(log)
    log.high_watermark = 21
    assert (log.last_stable_offset, len(log.producers)) == (21, 0)


def test_a_new_segment_has_nothing_of_one_that_had_its_name(tmp_path: Path) -> None:
    path = tmp_path / "events_0"
    path.mkdir()
    (path / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 1, 0, 1, 2))
    log = open_log(path)
    put(log, 1, 0)
    end(log, COMMITTED, 1)
    assert reported(log) == []


def test_a_new_segment_replaces_a_leftover_index(log: Log) -> None:
    put(log, 1, 0)
    Path(log.path, f"{1:020}.txnindex").write_bytes(b"x" * 68)
    log.roll(NOW)
    end(log, COMMITTED, 1)
    log.close()
    assert index_files(log) == {}


def test_an_index_that_is_not_in_the_page_cache(tmp_path: Path) -> None:
    log = reopen(filled(tmp_path / "events_0"))
    with PageCache(log.path) as cache:
        with pytest.raises(NotCached):
            log.aborted_transactions(0, 14, may_wait=False)
        assert cache.in_worker(lambda: reported(log, 0, 14)) == ALL
        assert [tuple(found[:3]) for found in log.aborted_transactions(0, 14, may_wait=False)] == ALL


def test_a_follower_learns_of_transactions_from_the_entries(tmp_path: Path) -> None:
    leader = filled(tmp_path / "leader" / "events_0")
    data = b"".join(path.read_bytes() for path in sorted(Path(leader.path).glob("*.kafka")))
    follower = open_log(tmp_path / "events_0")
    follower.append(data, NOW, origin=Origin.REPLICATION)
    follower.high_watermark = 14
    assert follower.last_stable_offset == 14
    assert reported(follower) == ALL
    follower.append(marker(ABORTED, 1, epoch=0, offset=14), NOW, origin=Origin.REPLICATION)
    assert reported(follower) == ALL
