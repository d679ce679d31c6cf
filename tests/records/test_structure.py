"""Validation of structure: all valid records pass, whatever they look like; no invalid ones do."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError

from pylogbroker.errors import InvalidRecords, KafkaError
from pylogbroker.records import AppendRules, Codec, Record, build, convert, prepare
from pylogbroker.records.validate import structure, uniform_runs
from pylogbroker.records.validate.structure import largest_timestamp_delta
from pylogbroker.records.validate.uniform_runs import measure_run
from tests.records.reference_codecs import PEERS
from tests.support.bad_batches import NONE, batch, field, record, varint
from tests.support.examples import examples

NOW = 1_700_000_000_000
HEADER = 61
KAFKA_PYTHON = PEERS[0]
Sizes = Callable[[int], int]


def records(count: int, size: Sizes, key: Sizes | None = None, time: Sizes = lambda n: 0, headers: int = 0) -> bytes:
    """So many records, by hand; `size` and `key` say how large values and keys are, `time` the timestamp deltas."""
    tail = varint(headers) + (field(b"trace") + field(b"0123")) * headers
    return b"".join(
        record(n, None if key is None else bytes(key(n)), bytes(size(n)), time=time(n), headers=tail)
        for n in range(count)
    )


def accepts(data: bytes, count: int) -> bool:
    """True if the records are let through; as bytes and as part of a larger frame it must be the same."""
    answers = []
    for whole, position in ((data, 0), (memoryview(b"head" + data), 4), (memoryview(bytearray(data)), 0)):
        try:
            largest_timestamp_delta(whole, count, 0, position)
        except InvalidRecords:
            answers.append(False)
        else:
            answers.append(True)
    assert len(set(answers)) == 1
    return answers[0]


SHAPES: dict[str, Callable[[int], bytes]] = {
    "all alike": lambda count: records(count, lambda n: 20),
    "large": lambda count: records(count, lambda n: 300),
    "with keys": lambda count: records(count, lambda n: 20, lambda n: 8),
    "with longer and longer keys": lambda count: records(count, lambda n: 20, lambda n: len(str(n))),
    "with large keys": lambda count: records(count, lambda n: 3, lambda n: 200),
    "with headers": lambda count: records(count, lambda n: 20, headers=2),
    "times that rise": lambda count: records(count, lambda n: 20, time=lambda n: n * 7),
    "times that come and go": lambda count: records(count, lambda n: 20, time=lambda n: n * 31 % 100),
    "times far away": lambda count: records(count, lambda n: 20, time=lambda n: (1 << 55) + n),
    "of ever other sizes": lambda count: records(count, lambda n: 17 + n * 29 % 90),
    "of two sizes": lambda count: records(count, lambda n: 20 + n % 2),
    "in runs": lambda count: records(count, lambda n: 20 + n // 40 % 3),
    "of nothing": lambda count: records(count, lambda n: 0),
}
COUNTS = (1, 2, 3, 4, 5, 17, 63, 64, 65, 66, 129, 700, 1100)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", COUNTS)
def test_valid_records_are_accepted(shape: str, count: int) -> None:
    data = SHAPES[shape](count)
    assert accepts(data, count)
    assert not accepts(data, count + 1)
    assert not accepts(data, count - 1)
    assert not accepts(data + b"\0", count)
    assert not accepts(data[:-1], count)


@pytest.mark.parametrize("count", [8191, 8192, 8193, 16_384, 16_390, 25_000])
@pytest.mark.parametrize("shape", ["all alike", "of ever other sizes"])
def test_many(shape: str, count: int) -> None:
    """Offset deltas take two bytes from 64 on, and three from 8192."""
    data = SHAPES[shape](count)
    assert accepts(data, count)
    assert not accepts(data, count + 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_records_too_large_to_be_copied(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    monkeypatch.setattr(structure, "_COPIED_RECORD_BYTES_MAX", 0)
    data = SHAPES[shape](200)
    assert accepts(data, 200)
    assert not accepts(data[:-1], 200)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [3, 5, 70, 200])
def test_every_place_of_every_record_is_looked_at(shape: str, count: int) -> None:
    """A byte of one record is changed: if that is let through, kafka-python must find the same number of records."""
    data = SHAPES[shape](count)
    assert accepts(data, count)  # so that its layout is known
    for position in random.Random(shape).sample(range(len(data)), min(len(data), examples(150))):
        for change in (1, 2, 0x80):
            changed = bytearray(data)
            changed[position] ^= change
            if accepts(bytes(changed), count):
                read_whole(batch(bytes(changed), count), count)


def read_whole(whole: bytes, count: int) -> None:
    try:
        found = KAFKA_PYTHON.read(whole)
    except CorruptRecordError as error:
        if not isinstance(error.__context__, UnicodeDecodeError):  # a header's key: Kafka takes any bytes
            raise
        return
    assert [each.offset for each in found] == list(range(count))


@pytest.mark.parametrize("shape", ["all alike", "with headers", "times that rise"])
def test_the_offset_of_a_record_in_a_run(shape: str) -> None:
    pieces = {n: SHAPES[shape](n + 1)[len(SHAPES[shape](n)) :] for n in (100, 101)}
    data = SHAPES[shape](300)
    at = len(SHAPES[shape](100))
    swapped = data[:at] + pieces[101] + pieces[100] + data[at + len(pieces[100]) + len(pieces[101]) :]
    assert sorted(swapped) == sorted(data)
    assert not accepts(swapped, 300)


@pytest.mark.parametrize("shape", [name for name in SHAPES if name.startswith(("all", "large", "with h", "with keys"))])
def test_runs_are_found(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """Records that are alike are not looked at one by one: of twenty thousand, some at which offsets become longer."""
    found: list[int] = []

    def noted(*arguments: Any) -> tuple[int, int]:
        uniform, largest = measure_run(*arguments)
        found.append(uniform)
        return uniform, largest

    monkeypatch.setattr(structure, "measure_run", noted)
    assert accepts(SHAPES[shape](20_000), 20_000)
    assert sum(found) > 3 * 20_000 - 50


def test_times_that_do_not_fit_are_found_in_runs_too() -> None:
    """They take nine bytes, as some that do fit."""
    data = records(20, lambda n: 20, time=lambda n: (1 << 60) if n < 19 else (1 << 62) - 1)
    assert not accepts(data, 20)
    assert accepts(records(20, lambda n: 20, time=lambda n: 1 << 60), 20)


TIMES: dict[str, Sizes] = {
    "none": lambda n: 0,
    "one that rises": lambda n: n // 9,
    "one that rises fast": lambda n: n * 7,
    "one that rises to many bytes": lambda n: n * n * n,
    "one that falls": lambda n: 3000 - n,
    "below the first": lambda n: -n,
    "far below the first": lambda n: -n * 100 - 1,
    "around the first": lambda n: (n % 5 - 2) * 10,
    "around the first by two bytes": lambda n: (n % 5 - 2) * 1000,
    "as of two clocks": lambda n: n // 4 + n % 2 * 70,
    "one late record": lambda n: 5000 if n == 40 else 64,
    "alike in the highest bits": lambda n: 128 + n * 31 % 60,
    "far ahead": lambda n: (1 << 50) + n * 11 % 7,
}
CLAIMS: tuple[Callable[[int], int], ...] = (
    lambda largest: largest,
    lambda largest: largest + 1,
    lambda largest: largest - 1,
    lambda largest: largest + 31_536_000_000,
    lambda largest: 0,
    lambda largest: -1,
    lambda largest: -NOW,
    lambda largest: 63,
    lambda largest: (1 << 64) - 1,
)


class TestLargestTimestampDelta:
    """Whatever a header claims, the answer is that of the records."""

    @pytest.mark.parametrize("name", TIMES)
    @pytest.mark.parametrize("sizes", [lambda n: 20, lambda n: 20 + n * 29 % 40], ids=["uniform", "others"])
    def test_every_claim(self, name: str, sizes: Sizes) -> None:
        times = TIMES[name]
        for count in (1, 2, 3, 10, 64, 65, 150, 700, 1700):
            data = records(count, sizes, time=times)
            expected = max(times(n) for n in range(count))
            for claim in CLAIMS:
                for _ in range(3):  # the third time, its shape is known
                    found = largest_timestamp_delta(memoryview(b"head" + data), count, claim(expected), 4)
                    assert found == expected, (count, claim(expected))

    @settings(max_examples=examples(200), deadline=None)
    @given(
        st.lists(st.integers(0, 3) | st.integers(-70, 70) | st.integers(-20_000, 20_000), min_size=1, max_size=90),
        st.sampled_from([1, 3, 20]),
        st.integers(-20_000, 20_000),
    )
    def test_any_times(self, times: list[int], repeated: int, claimed: int) -> None:
        times *= repeated
        data = records(len(times), lambda n: 7, time=times.__getitem__)
        for claim in (claimed, max(times), times[-1]):
            assert largest_timestamp_delta(data, len(times), claim) == max(times)

    def test_more_bytes_than_needed(self) -> None:
        """A varint may end with zeros: here all timestamp deltas have two bytes."""
        bodies = [
            b"\0" + bytes([2 * time | 0x80, 0]) + varint(n) + b"\x01\x08abcd\0" for n, time in enumerate(range(60))
        ]
        data = b"".join(varint(len(body)) + body for body in bodies)
        for claimed in (59, 58, 60, 0, -1):
            for _ in range(3):
                assert largest_timestamp_delta(data, 60, claimed) == 59

    def test_a_right_claim_needs_no_second_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wherever clocks do not go back, nothing is looked up record by record."""
        for name in ("_largest_of_all", "largest_in_columns"):
            module = structure if hasattr(structure, name) else uniform_runs
            monkeypatch.setattr(module, name, None)
        for name in ("none", "one that rises", "one that rises fast", "far ahead"):
            for count in (10, 150, 1700):
                data = records(count, lambda n: 20, time=TIMES[name])
                claimed = max(TIMES[name](n) for n in range(count))
                assert largest_timestamp_delta(data, count, claimed) == claimed, (name, count)


class TestManyOthers:
    """Records after the first thousand are checked by their lengths alone."""

    def data(self, broken: bytes) -> bytes:
        pieces = [record(n, None, bytes(17 + n * 29 % 90)) for n in range(3000)]
        pieces[2500] = broken
        return b"".join(pieces)

    def test_lengths(self) -> None:
        assert accepts(self.data(record(2500)), 3000)
        for longer_by in (1, -1, 40):
            assert not accepts(self.data(record(2500, longer_by=longer_by)), 3000)
        assert not accepts(self.data(varint(-1)), 3000)
        assert not accepts(self.data(varint(0)), 3000)
        assert not accepts(self.data(b""), 3000)

    def test_fields(self) -> None:
        assert accepts(self.data(record(2500, key_size=9)), 3000)


@st.composite
def batches_with_a_fault(draw: st.DrawFn) -> tuple[bytes, int]:
    """A batch, some bytes of whose records are other ones, perhaps more or fewer; its CRC is right."""
    count = draw(st.integers(1, 150))
    same_size = draw(st.booleans())
    sizes = draw(st.lists(st.integers(0, 80), min_size=1, max_size=1 if same_size else 7))
    key = draw(st.sampled_from([None, 0, 5]))
    step = draw(st.sampled_from([0, 1, 100]))
    data = bytearray(
        records(
            count,
            lambda n: sizes[n % len(sizes)],
            None if key is None else lambda n: key,
            lambda n: n * step,
            draw(st.sampled_from([0, 0, 1])),
        )
    )
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, max(len(data) - 1, 0)))
        new = draw(st.binary(max_size=3))
        data[position : position + draw(st.integers(0, 3))] = new
    count = max(count + draw(st.sampled_from([0, 0, 0, 1, -1])), 1)
    codec = draw(st.sampled_from([NONE, NONE, *Codec]))
    return batch(bytes(data), count, codec=codec), count


@settings(max_examples=examples(300), deadline=None)
@given(batches_with_a_fault())
def test_accepted_batches_can_be_read(made: tuple[bytes, int]) -> None:
    whole, count = made
    try:
        prepared = prepare(whole, AppendRules(), 0, NOW, 0)
    except KafkaError:
        return
    read_whole(b"".join(prepared.chunks), count)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from([codec for codec in Codec if codec]), st.data())
def test_changed_compressed_bytes(codec: Codec, data: st.DataObject) -> None:
    whole = bytearray(batch(records(20, lambda n: n % 5 * 7), 20, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(HEADER, len(whole) - 1))] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", whole, 17, crc32c.crc32c(bytes(whole[21:])))
    try:
        converted = convert(bytes(whole), AppendRules(), NOW)
    except KafkaError:
        return
    read_whole(bytes(converted), 20)


def test_batches_of_our_encoder_are_accepted() -> None:
    made = [Record(n, NOW + n * n, b"k" * (n % 3), bytes(n % 50), (("h", None),) * (n % 2)) for n in range(500)]
    assert accepts(build(made)[HEADER:], 500)
