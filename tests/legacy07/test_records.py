"""Messages of 0.7 read, checked, stored and converted, against `struct` and `zlib`, and kafka-python's reading."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import snappy_encode
from kafka.record import MemoryRecords

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.legacy07.records.message_sets import check_legacy07, from_legacy07, prepare_legacy07, to_legacy07
from pylogbroker.legacy07.records.messages import build_legacy07, messages
from pylogbroker.records import (
    AppendRules,
    Codec,
    Record,
    SizeBudget,
    TooCostly,
    build,
)
from tests.legacy07.message_sets import GZIP, ONE, SNAPPY, THREE, TWO, ZIPPED, message, read_set, wrapped

RULES = AppendRules(magic=0)
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
PIECES = st.lists(st.tuples(PAYLOADS, st.sampled_from([None, GZIP, SNAPPY]), st.sampled_from([0, 1])), max_size=6)


def piece(payloads: list[bytes], codec: int | None, magic: int) -> bytes:
    return b"".join(message(each, magic) for each in payloads) if codec is None else wrapped(payloads, codec, magic)


def test_the_recorded_messages() -> None:
    found = list(messages(ONE + ZIPPED + TWO, 100))
    assert [each.base_offset for each in found] == [100, 113, 164]
    assert [each.last_offset for each in found] == [112, 163, 176]
    assert [[bytes(value) for value in each.values()] for each in found] == [[b"one"], [b"g1", b"g2"], [b"two"]]
    assert build_legacy07([b"one", b"two"]) == ONE + TWO


@given(PIECES, st.integers(0, 1 << 40))
def test_valid_messages_are_stored_unchanged(pieces: list[tuple[list[bytes], int | None, int]], position: int) -> None:
    parts = [piece(*each) for each in pieces]
    data = b"".join(parts)
    if not data:
        return
    prepared = prepare_legacy07(data, RULES, position)
    assert b"".join(bytes(chunk) for chunk in prepared.chunks) == data
    assert (prepared.base_offset, prepared.last_offset) == (position, position + len(data) - 1)
    assert [meta.base_offset - position for meta in prepared.entries] == [at for at, _ in read_set(data)]


@given(PIECES, st.integers(0, 1 << 40), st.sampled_from([0, 1, 2]))
def test_kafkas_view(pieces: list[tuple[list[bytes], int | None, int]], position: int, magic: int) -> None:
    """kafka-python reads every payload, in order, with the positions that follow from the sizes."""
    data, expected = b"", []
    for payloads, codec, inner in pieces:
        part = piece(payloads, codec, inner)
        if codec is None:
            starts = [at for at, _ in read_set(part)]
            expected += [(position + len(data) + at, each) for at, each in zip(starts, payloads, strict=True)]
        else:
            expected += [(position + len(data) + n, each) for n, each in enumerate(payloads)]
        data += part
    converted = from_legacy07(data, position, magic, SizeBudget(1 << 20), first_offset=0)
    read = kafka_reads(converted)
    assert read == expected
    for first, _ in expected:
        later = from_legacy07(data, position, magic, SizeBudget(1 << 20), first_offset=first)
        assert kafka_reads(later) == [each for each in expected if each[0] >= first]


def kafka_reads(data: bytes) -> list[tuple[int, bytes]]:
    found, reader = [], MemoryRecords(data)
    while (batch := reader.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            assert record.key is None
            found.append((record.offset, bytes(record.value)))
    return found


def test_a_batch_reaches_up_to_the_next_message() -> None:
    data = from_legacy07(ONE + ZIPPED, 100, 2, SizeBudget(1 << 20), first_offset=0)
    reader = MemoryRecords(data)
    assert [reader.next_batch().next_offset for _ in range(2)] == [113, 164]


def test_converted_records_are_counted() -> None:
    budget = SizeBudget(1 << 20)
    from_legacy07(ONE + ZIPPED + TWO, 0, 2, budget, first_offset=13)
    assert budget.converted == 3
    appended: list[tuple[int, int]] = []
    records = build([Record(n, 0, None, b"value") for n in range(3)])
    made = to_legacy07(records, AppendRules(), 0, 1 << 20, lambda records, size, ns: appended.append((records, size)))
    assert appended == [(3, len(made))]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_bound_cuts_between_records(magic: int) -> None:
    data = b"".join(message(b"%099d" % number) for number in range(50)) + wrapped([b"x" * 500] * 4)
    first, seen = 0, 0
    while converted := from_legacy07(data, 0, magic, SizeBudget(400), first_offset=first):
        found = kafka_reads(converted)
        assert len(found) in (1, 2, 3)
        seen += len(found)
        first = found[-1][0] + 1
    assert seen == 54


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_damaged_messages_on_disk_are_not_given_a_new_checksum(magic: int) -> None:
    """Messages before the damage can be read; a reader of the damaged one gets an error."""
    rotten = TWO[:-1] + b"p"
    for before, after in ((ONE, THREE), (ZIPPED, ZIPPED), (ONE + ZIPPED, b"")):
        data = before + rotten + after
        found = kafka_reads(from_legacy07(data, 0, magic, SizeBudget(1 << 20), first_offset=0))
        assert found == kafka_reads(from_legacy07(before, 0, magic, SizeBudget(1 << 20), first_offset=0)) != []
        with pytest.raises(CorruptRecords):
            from_legacy07(rotten + after, len(before), magic, SizeBudget(1 << 20), first_offset=len(before))
        for first in (len(before), len(before) - 1):
            with pytest.raises(CorruptRecords):
                from_legacy07(data, 0, magic, SizeBudget(1 << 20), first_offset=first)
    wrapper = bytearray(ZIPPED)
    wrapper[-1] ^= 1
    with pytest.raises(CorruptRecords):
        from_legacy07(bytes(wrapper), 0, magic, SizeBudget(1 << 20), first_offset=0)


BAD = [
    (ONE[:-1], CorruptRecords),  # cut off
    (ONE[:3], CorruptRecords),
    (ONE[:-1] + b"f", CorruptRecords),  # its CRC
    (b"\0\0\0\4\1\0\0\0\0\0", CorruptRecords),  # too small
    (ONE[:4] + b"\2" + ONE[5:], CorruptRecords),  # magic
    (message(b"x", 1, 3), InvalidRecords),  # no such codec
    (message(b"not gzip", 1, GZIP), CorruptRecords),
    (message(wrapped([b"x"])[10:], 1, SNAPPY), CorruptRecords),
    (wrapped([]), InvalidRecords),  # nothing inside
    (b"", InvalidRecords),
]


@pytest.mark.parametrize(("data", "error"), BAD, ids=range(len(BAD)))
def test_invalid_message_sets_are_rejected(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        prepare_legacy07(data, RULES, 0)


def test_damage_inside_a_wrapper_is_rejected() -> None:
    import gzip

    nested = gzip.compress(wrapped([b"x"]))
    for payload in (nested, gzip.compress(ONE[:-1] + b"f"), gzip.compress(ONE[:-1])):
        with pytest.raises(KafkaError):
            prepare_legacy07(message(payload, 1, GZIP), RULES, 0)


def test_a_message_that_is_too_large() -> None:
    with pytest.raises(KafkaError) as caught:
        prepare_legacy07(message(bytes(100)), AppendRules(magic=0, max_bytes=100), 0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_large_compressed_sets_go_to_a_worker_with_a_size_limit() -> None:
    bomb = wrapped([bytes(1 << 20)])
    rules = AppendRules(magic=0, inline_bytes_max=1 << 16)
    with pytest.raises(TooCostly):
        prepare_legacy07(bomb, rules, 0)
    assert bytes(check_legacy07(bomb, rules)) == bomb
    with pytest.raises(InvalidRecords):
        check_legacy07(bomb, AppendRules(magic=0, inline_bytes_max=1 << 16, decompressed_bytes_max=1 << 19))


def test_more_messages_inside_than_bytes_are_stored_apart() -> None:
    """Each must have a position of its own."""
    payloads = [b"same"] * 5000
    data = wrapped(payloads)
    assert len(data) < 5000
    stored = b"".join(bytes(chunk) for chunk in prepare_legacy07(data, RULES, 0).chunks)
    assert stored == b"".join(map(message, payloads))


def test_forms_of_compression_that_not_all_consumers_read_are_undone() -> None:
    inner = message(b"one") + message(b"two")
    two_members = gzip.compress(inner[:5]) + gzip.compress(inner[5:])
    other_version = bytearray(snappy_encode(inner))
    other_version[11] = 2
    for payload, codec in ((two_members, GZIP), (bytes(other_version), SNAPPY)):
        prepared = prepare_legacy07(message(payload, 1, codec), RULES, 0)
        assert b"".join(map(bytes, prepared.chunks)) == inner


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_from_kafkas_clients(magic: int, codec: Codec) -> None:
    values = [b"value %d" % number for number in range(20)]
    sent = build([Record(0, 1500, None, value) for value in values], magic=magic, codec=codec)
    stored = to_legacy07(sent, RULES, 2000, 1 << 20)
    assert [bytes(value) for each in messages(stored, 0) for value in each.values()] == values
    assert [each.codec for each in messages(stored, 0)] == [codec] * (1 if codec else 20)
    assert {stored[at + 4] for at, _ in read_set(stored)} == {1}


REJECTED = [
    build([Record(0, 1, b"key", b"value")]),
    build([Record(0, 1, None, None)]),
    build([Record(0, 1, None, b"value", (("name", b"header"),))]),
    build([Record(0, 1, None, b"value")], producer_id=5, producer_epoch=0, base_sequence=0),
    build([Record(0, 1, None, b"value")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
    build([Record(0, 1, b"key", b"value")], magic=1),
]


@pytest.mark.parametrize("sent", REJECTED, ids=range(len(REJECTED)))
def test_records_that_0_7_cannot_express_are_rejected(sent: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        to_legacy07(sent, RULES, 2000, 1 << 20)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_errors_of_idempotent_producers_name_the_setting() -> None:
    sent = build([Record(0, 1, None, b"value")], producer_id=5, producer_epoch=0, base_sequence=0)
    with pytest.raises(KafkaError, match=r"neither idempotent producers .*: set enable\.idempotence=false"):
        to_legacy07(sent, RULES, 2000, 1 << 20)
