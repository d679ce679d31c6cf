"""A log of format 0.7 over the segments, the recovery and the retention of all logs; positions come from `struct`."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pylogbroker.legacy07.storage  # noqa: F401  registers the message format
from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange, StorageFailure
from pylogbroker.storage import Log, LogConfig, Origin, Recovered
from tests.legacy07.message_sets import GZIP, ONE, SNAPPY, ZIPPED, message, read_set, wrapped
from tests.storage.support import NOW, batch, bytes_on_disk, expired, open_log, reopen
from tests.support.budget import Budget
from tests.support.examples import examples

CONFIG = LogConfig(magic=0, byte_addressed=True, segment_bytes=1000, index_interval_bytes=100)


def append(log: Log, data: bytes, origin: Origin = Origin.NATIVE) -> int:
    appended = log.append(data, NOW, origin=origin)
    log.high_watermark = log.log_end_offset
    return appended.base_offset


def fill(log: Log, count: int, seed: int = 0) -> bytes:
    """Append sets of all kinds; all of their bytes."""
    chance, data = random.Random(seed), b""
    for number in range(count):
        payloads = [b"%d-%d" % (number, each) * chance.randrange(1, 9) for each in range(chance.randrange(1, 4))]
        kind = chance.randrange(4)
        part = wrapped(payloads, GZIP + kind % 2) if kind > 1 else b"".join(message(each, kind) for each in payloads)
        assert append(log, part) == len(data)
        data += part
    return data


def test_files_are_named_by_position_and_hold_the_sent_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 60)
    bases = [int(file.stem) for file in sorted(tmp_path.glob("*.kafka"))]
    assert len(bases) > 3
    assert bases == [
        sum(file.stat().st_size for file in sorted(tmp_path.glob("*.kafka"))[:n]) for n in range(len(bases))
    ]
    log.close()
    assert bytes_on_disk(tmp_path) == data
    assert log.log_end_offset == len(data)


def test_bytes_from_anywhere(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 40)
    for offset in range(len(data)):
        region = log.read_bytes(offset, 77, upto=len(data))
        assert region is not None
        assert region.read() == data[offset : offset + len(region)]
        assert len(region) == 77 or offset + len(region) in [*(each.base_offset for each in log.segments), len(data)]
    assert log.read_bytes(len(data), 77, upto=len(data)) is None
    assert len(log.read_bytes(0, 77, upto=5) or b"") == 5
    for offset in (-1, len(data) + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read_bytes(offset, 77, upto=len(data))


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 600))
def test_whole_messages_from_the_one_that_holds_an_offset(
    tmp_path_factory: pytest.TempPathFactory, seed: int, most: int
) -> None:
    path = tmp_path_factory.mktemp("log")
    log = open_log(path, CONFIG)
    data = fill(log, 30, seed)
    starts = [at for at, _ in read_set(data)]
    for offset in random.Random(seed).sample(range(len(data)), 40):
        region = log.read(offset, most, upto=len(data))
        assert region is not None
        begin = max(start for start in starts if start <= offset)
        assert region.first_position == begin
        assert region.next_offset in [*starts, len(data)]
        assert region.read() == data[begin : region.next_offset]
        assert len(region) <= most or region.next_offset == next((at for at in starts if at > begin), len(data))
    log.close()
    shutil.rmtree(path)


def test_the_directory_decides_the_format_over_the_settings(tmp_path: Path) -> None:
    """At a start logs are opened before it is known what their topics want."""
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 30)
    log.close()
    for saved in ({}, {"clean": True, "recovery_point": len(data)}):
        log = open_log(tmp_path, LogConfig(), **saved)
        assert log.byte_addressed
        assert log.log_end_offset == len(data)
        assert append(log, ONE) == len(data)
        data += ONE
        log.close()
    assert bytes_on_disk(tmp_path) == data
    (tmp_path / "message-format").write_text("0.6\n")
    with pytest.raises(StorageFailure, match=r"unknown message format .*0\.6.*; expected .*0\.7"):
        open_log(tmp_path, LogConfig())


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_without_its_message_format_is_not_opened(tmp_path: Path, clean: bool) -> None:
    """The log would be cut at its first byte as an offset-addressed one."""
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 30)
    log.close()
    (tmp_path / "message-format").unlink()
    saved: dict[str, Any] = {"clean": clean, "recovery_point": len(data)}
    with pytest.raises(StorageFailure, match=r"message-format is missing.*message\.format\.version is 0\.7.*write"):
        open_log(tmp_path, CONFIG, **saved)
    assert bytes_on_disk(tmp_path) == data
    (tmp_path / "message-format").write_text("0.7\n")
    assert open_log(tmp_path, CONFIG, **saved).log_end_offset == len(data)


def test_an_offset_addressed_log_of_a_topic_of_0_7_is_not_opened(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(), NOW)
    log.close()
    data = bytes_on_disk(tmp_path)
    with pytest.raises(StorageFailure, match="move the directory away"):
        open_log(tmp_path, CONFIG)
    assert bytes_on_disk(tmp_path) == data


def test_a_clean_stop_and_more(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 30)
    log = reopen(log)
    assert append(log, ONE) == len(data)
    assert log.read_bytes(len(data), 99, upto=log.log_end_offset).read() == ONE  # type: ignore[union-attr]


def crash(log: Log, copy: Path) -> Path:
    """Files after a crash."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(log.path, copy)
    return copy


@pytest.mark.parametrize("clean", [False, True])
def test_torn_at_every_byte(tmp_path: Path, clean: bool, budget: Budget) -> None:
    """A clean stop's marker makes no difference: the log is seen not to end where it says."""
    log = open_log(tmp_path / "log", CONFIG)
    data = fill(log, 40)
    last = log.segments[-1].base_offset
    starts = [at for at, _ in read_set(data)] + [len(data)]
    for length in budget.some(range(len(data) - last), f"cuts {clean}"):
        path = crash(log, tmp_path / "copy")
        with open(path / f"{last:020}.kafka", "r+b") as file:
            file.truncate(length)
        found: list[Recovered] = []
        torn = open_log(path, CONFIG, clean=clean, recovery_point=len(data) if clean else 0, found=found)
        assert torn.log_end_offset == max(at for at in starts if at <= last + length)
        assert bytes_on_disk(path) == data[: torn.log_end_offset]
        assert append(torn, ONE) == torn.log_end_offset - len(ONE)
        torn.take_offline("done")


def test_every_byte_flipped(tmp_path: Path, budget: Budget) -> None:
    """A payload is in its CRC, its size must fit, and 5 bytes of magic and attributes show damage by themselves."""
    log = open_log(tmp_path / "log", CONFIG)
    data = fill(log, 12)
    [segment] = log.segments[-1:]
    starts = [at for at, _ in read_set(data) if at >= segment.base_offset]
    for start, following in zip(starts, [*starts[1:], len(data)], strict=True):
        for place in budget.all_or_some(range(start, following), f"flips in {start}"):
            if data[start + 4] == 1 and place == start + 5:
                continue  # attributes are outside of the CRC
            path = crash(log, tmp_path / "copy")
            with open(path / f"{segment.base_offset:020}.kafka", "r+b") as file:
                file.seek(place - segment.base_offset)
                file.write(bytes([data[place] ^ 0x55]))
            torn = open_log(path, CONFIG)
            assert torn.log_end_offset == start
            torn.take_offline("done")


@pytest.mark.parametrize(
    "garbage", [bytes(4096), b"\xff" * 50, random.Random(1).randbytes(9000), b"\0\0\x10\0\1\0abcd"]
)
def test_garbage_behind_the_end(tmp_path: Path, garbage: bytes) -> None:
    log = open_log(tmp_path / "log", CONFIG)
    data = fill(log, 20)
    path = crash(log, tmp_path / "copy")
    with open(path / f"{log.segments[-1].base_offset:020}.kafka", "ab") as file:
        file.write(garbage)
    assert open_log(path, CONFIG).log_end_offset == len(data)
    assert bytes_on_disk(path) == data


def test_a_segment_that_lacks_its_end_ends_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", CONFIG)
    data = fill(log, 40)
    path = crash(log, tmp_path / "copy")
    first = log.segments[1].base_offset
    last = [at for at, _ in read_set(data) if at < first][-1]
    with open(path / f"{0:020}.kafka", "r+b") as file:
        file.truncate(last)
    assert open_log(path, CONFIG).log_end_offset == last


def test_indexes_that_are_gone_or_wrong_are_recreated(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 60)
    log.close()
    for name in tmp_path.glob("*.index"):
        name.write_bytes(random.Random(2).randbytes(name.stat().st_size))
    log = open_log(tmp_path, CONFIG, clean=True, recovery_point=len(data))
    starts = [at for at, _ in read_set(data)]
    for offset in range(0, len(data), 13):
        region = log.read(offset, 1, upto=len(data))
        assert region is not None
        assert region.first_position == max(at for at in starts if at <= offset)


def test_records_are_deleted_up_to_a_message(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    data = fill(log, 40)
    starts = [at for at, _ in read_set(data)]
    assert log.delete_records_before(starts[20] + 3) == starts[20]
    assert log.delete_records_before(len(data)) == len(data)
    for deleted in expired(log, NOW):
        deleted.unlink()
    assert append(log, ONE) == len(data)
    assert len(log.segments) == 1
    assert bytes_on_disk(tmp_path) == (data + ONE)[log.segments[0].base_offset :]


def test_records_of_kafka_clients_are_converted(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    append(log, batch([b"one", b"hello"]), Origin.CLIENT)
    assert log.preparation.is_costly(batch())
    append(log, bytes(log.preparation.convert(batch([b"three"]), NOW)), Origin.CONVERTED)
    assert [payload for _, payload in read_set(bytes_on_disk(tmp_path))] == [b"one", b"hello", b"three"]


def test_records_of_coordinators_are_rejected(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    with pytest.raises(KafkaError) as caught:
        log.append(batch(), NOW, origin=Origin.COORDINATOR)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert "message format 0.7 has neither idempotent producers nor transactions" in caught.value.detail
    assert log.log_end_offset == 0


def test_there_are_no_times(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    append(log, ONE + ZIPPED + wrapped([b"x"], SNAPPY))
    assert max(segment.largest()[0] for segment in log.segments) == -1
    assert log.find_timestamp(0) is None
