"""Runs of batches: logs, indexes and producer states are those of appends one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import KafkaError, StorageFailure
from pylogbroker.records import PreparedRecords, TooCostly
from pylogbroker.storage import Log, LogConfig
from tests.storage.support import NOW, batch, bytes_on_disk, open_log

PRODUCERS = 7, 8, 9


@attrs.frozen
class Sent:
    """A batch as a producer sends it; `damage` is the place of a byte that is changed."""

    sizes: tuple[int, ...] = (10,)
    times: tuple[int, ...] = (0,)
    sequence: int = -1
    producer: int = PRODUCERS[0]
    epoch: int = 0
    codec: int = 0
    transactional: bool = False
    damage: int = -1

    def encoded(self) -> memoryview:
        values = [bytes([65 + number]) * size for number, size in enumerate(self.sizes)]
        times = [NOW + self.times[number % len(self.times)] for number in range(len(values))]
        producer = (-1, -1, -1) if self.sequence < 0 else (self.producer, self.epoch, self.sequence)
        encoded = bytearray(batch(values, times, producer, self.codec, self.transactional))
        if self.damage >= 0:
            encoded[self.damage % len(encoded)] ^= 1
        return memoryview(bytes(encoded))


def sequenced(batches: Sequence[Sent]) -> list[Sent]:
    """Give most idempotent batches the next sequence number of their producer."""
    following, numbered = dict.fromkeys(PRODUCERS, 0), []
    for sent in batches:
        if sent.sequence >= 0:
            sequence = following[sent.producer] if sent.sequence < 9 else sent.sequence
            numbered.append(attrs.evolve(sent, sequence=sequence))
            following[sent.producer] = sequence + len(sent.sizes)
        else:
            numbered.append(sent)
    return numbered


_SENT = st.builds(
    Sent,
    st.lists(st.sampled_from((1, 10, 300)), min_size=1, max_size=4).map(tuple),
    st.lists(st.integers(-50, 50), min_size=1, max_size=3).map(tuple),
    st.sampled_from((*(-1,) * 8, *(0,) * 8, 9)),
    st.sampled_from(PRODUCERS),
    st.sampled_from((*(0,) * 12, 1)),
    st.sampled_from((0, 0, 0, 1, 3)),
    st.sampled_from((*(False,) * 15, True)),
    st.sampled_from((*(-1,) * 20, 12, 17, 30, 40, 60)),
)
_CONFIG = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from((700, 3000, *(1 << 20,) * 6)),
    index_interval_bytes=st.sampled_from((0, 200, 4096, 4096)),
    flush_messages=st.sampled_from((5, *(1 << 62,) * 6)),
    max_message_bytes=st.sampled_from((500, *(1 << 20,) * 4)),
    compression_type=st.sampled_from((*("producer",) * 6, "gzip")),
    message_timestamp_type=st.sampled_from((*("CreateTime",) * 6, "LogAppendTime")),
)


def append(log: Log, buffer: memoryview, epoch: int) -> str:
    """Append one batch; return what its producer would get."""
    try:
        appended = log.append(buffer, NOW, epoch)
    except (KafkaError, TooCostly) as error:
        return repr(error)
    return f"{appended.base_offset} to {appended.last_offset}"


def append_run(log: Log, buffers: list[memoryview], epoch: int) -> PreparedRecords | None:
    """Append the first batches at once; return them, or None."""
    prepared = log.prepare_run(buffers, NOW, epoch)
    return prepared if prepared is not None and log.append_prepared(prepared) else None


def append_in_runs(log: Log, buffers: list[memoryview], epoch: int) -> list[str]:
    results = []
    while buffers:
        appended = append_run(log, buffers, epoch)
        if appended is None:
            results.append(append(log, buffers.pop(0), epoch))
        else:
            results += [f"{entry.base_offset} to {entry.last_offset}" for entry in appended.entries]
            del buffers[: len(appended.entries)]
    return results


def state_of(log: Log) -> tuple[object, ...]:
    for segment in log.segments:
        segment.store_indexes()
    files = {path.name: path.read_bytes() for path in sorted(Path(log.path).iterdir()) if path.is_file()}
    producers = sorted(repr(state) for state in log.producers)
    return files, producers, log.log_end_offset, log.size, log.last_stable_offset


@given(st.lists(st.lists(_SENT, min_size=1, max_size=8), max_size=4), _CONFIG, st.integers(0, 1))
def test_runs_are_like_single_appends(groups: list[list[Sent]], config: LogConfig, epoch: int) -> None:
    groups_left = sequenced([sent for group in groups for sent in group])
    with tempfile.TemporaryDirectory() as directory:
        single = open_log(f"{directory}/single/events-0", config)
        in_runs = open_log(f"{directory}/runs/events-0", config)
        for group in groups:
            buffers = [sent.encoded() for sent in groups_left[: len(group)]]
            del groups_left[: len(group)]
            expected = [append(single, buffer, epoch) for buffer in buffers]
            assert append_in_runs(in_runs, buffers, epoch) == expected
        assert state_of(in_runs) == state_of(single)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "events-0")
    log.append(Sent(sequence=0).encoded(), NOW)
    return log


def run_of(log: Log, *batches: Sent) -> int:
    appended = append_run(log, [sent.encoded() for sent in batches], 0)
    return 0 if appended is None else len(appended.entries)


def test_a_run_ends_before_the_first_unusual_batch(log: Log) -> None:
    assert run_of(log, Sent(), Sent(), Sent()) == 3
    assert run_of(log, Sent(sequence=1), Sent((1, 1), sequence=2), Sent(sequence=4), Sent(sequence=6)) == 3
    assert run_of(log, Sent(), Sent(damage=70), Sent()) == 1
    assert run_of(log, Sent(), Sent(sequence=5, transactional=True), Sent()) == 1
    assert run_of(log, Sent(), Sent(codec=1), Sent()) == 3
    assert run_of(log, Sent(sequence=5, epoch=1)) == 0
    assert log.log_end_offset == 1 + 3 + 4 + 1 + 1 + 3


def test_a_run_may_have_several_producers(log: Log) -> None:
    log.append(Sent(sequence=0, producer=8).encoded(), NOW)
    both = [Sent(sequence=number, producer=producer) for number in (1, 2) for producer in (7, 8)]
    assert run_of(log, *both, Sent(sequence=3)) == 5
    assert run_of(log, Sent(sequence=4), Sent(sequence=3, producer=8), Sent(sequence=4)) == 2  # a duplicate
    assert run_of(log, Sent(sequence=5), Sent(sequence=5, producer=8)) == 1  # a gap
    assert run_of(log, Sent(sequence=6), Sent(sequence=0, producer=9)) == 1  # a producer that is not known


def test_a_run_stays_in_its_leader_epoch(log: Log) -> None:
    assert append_run(log, [Sent().encoded()], 1) is None
    log.append(Sent().encoded(), NOW, 1)
    assert append_run(log, [Sent().encoded()], 1) is not None


def test_nothing_is_appended_by_a_failed_write(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bytes_on_disk(log.path), log.log_end_offset
    with monkeypatch.context() as patch:
        patch.setattr("pylogbroker.storage.log.segment_file.write_at", failing_write)
        assert run_of(log, Sent(sequence=1), Sent(sequence=2)) == 0
        with pytest.raises(StorageFailure):
            log.append(Sent(sequence=1).encoded(), NOW)
    assert (bytes_on_disk(log.path), log.log_end_offset) == before


def failing_write(*_: object) -> None:
    raise OSError(28, "No space left on device")
