"""Shape cache: batches like an earlier one are recognized without a full validation, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pylogbroker.records.validate import shape_cache, structure
from pylogbroker.records.validate.structure import largest_timestamp_delta
from tests.support.bad_batches import field, record, varint

COUNTS = (1, 2, 16, 64)
LONG_WINDED = varint(8) + b"\0\0\x80\0\x01\x02v\0"
"""A record whose offset delta takes more bytes than it needs."""

Teach = Callable[[bytes, int], None]


class Iterated(Exception):
    """A batch was not recognized."""


def records(
    sizes: list[int], *, key: bytes | None = None, times: int = 0, fill: bytes = b"v", headers: int = 0
) -> bytes:
    tail = varint(headers) + (field(b"trace") + field(b"0123")) * headers
    return b"".join(record(n, key, fill * size, time=times * n, headers=tail) for n, size in enumerate(sizes))


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    shape_cache._shapes.clear()
    yield
    shape_cache._shapes.clear()


@pytest.fixture
def teach(monkeypatch: pytest.MonkeyPatch) -> Teach:
    """Show a batch until its shape is cached; no similar one is validated in full after that."""

    def iterated(*_: object) -> None:
        raise Iterated

    def show(data: bytes, count: int) -> None:
        largest_timestamp_delta(data, count, 0)
        largest_timestamp_delta(data, count, 0)
        monkeypatch.setattr(structure, "_check_next", iterated)

    return show


def is_recognized(data: bytes, count: int) -> bool:
    try:
        largest_timestamp_delta(memoryview(b"head" + data), count, 0, 4)
    except Iterated:
        return False
    return True


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [0, 5, 100, 9000])
@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 200])
def test_other_contents_are_recognized(teach: Teach, count: int, size: int, key: bytes | None) -> None:
    sizes = [size] * count
    teach(records(sizes, key=key), count)
    other = None if key is None else key.upper()
    assert is_recognized(records(sizes, key=other, fill=b"\xff", times=-1), count)
    if count > 1:
        assert not is_recognized(records(sizes, key=other, times=100), count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("key", [None, b"key"])
def test_no_byte_outside_of_contents_may_differ(teach: Teach, count: int, key: bytes | None) -> None:
    data = records([70] * count, key=key)
    teach(data, count)
    others = records([70] * count, key=key and b"KEY", fill=b"V")
    contents = {at for at, (byte, other) in enumerate(zip(data, others, strict=True)) if byte != other}
    times = range(3, len(data), len(data) // count)  # behind two bytes of length, and the attributes
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            is_time = at in times and bit < 7 and (count > 1 or bit > 0)  # batches of negative deltas are looked at
            assert is_recognized(bytes(changed), count) == (at in contents or is_time), (at, bit)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (records([20, 19, 21]), 3),
        (records([21, 20, 19]), 3),
        (records([20, 21]), 2),
        (records([20] * 4, headers=1), 4),
        (records([20] * 65), 65),
        (record(0, time=1 << 58), 1),
        (LONG_WINDED, 1),
    ],
    ids=["sizes that add up", "others", "two sizes", "headers", "many", "far times", "a zero of two bytes"],
)
def test_unsuitable_batches_are_not_cached(teach: Teach, data: bytes, count: int) -> None:
    teach(data, count)
    assert not is_recognized(data, count)


def test_alternating_shapes_of_one_size_are_accepted() -> None:
    """Two batches of the same size and number of records, alternately: both are right at any time."""
    with_key, without = record(0, b"1234", b"56"), record(0, None, b"123456")
    assert len(with_key) == len(without)
    for _ in range(3):
        largest_timestamp_delta(with_key, 1, 0)
        largest_timestamp_delta(without, 1, 0)


def test_number_of_cached_shapes_is_bounded() -> None:
    for size in range(2000):
        for _ in range(2):
            largest_timestamp_delta(record(0, None, bytes(size)), 1, 0)
        assert len(shape_cache._shapes) <= 512
