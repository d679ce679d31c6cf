from __future__ import annotations

import struct
import zlib
from typing import Any

import attrs
import pytest

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.records import (
    AppendedEntry,
    AppendRules,
    Codec,
    LogEntry,
    PreparedRecords,
    Record,
    TimestampType,
    TooCostly,
    build,
    convert,
    crc32c,
    entries,
    prepare,
)
from tests.records.memory_growth import peak_growth
from tests.records.reference_codecs import FORMATS, PEER_FORMATS, PEERS

NOW = 1_700_000_000_000
BASE = 1000
RECORDS = [
    Record(0, NOW - 5, b"a", b"first" * 40),
    Record(1, NOW - 1, b"b", None, (("h", b"x"),)),
    Record(2, NOW - 9, b"c", b"third" * 40),
]
PLAIN = [attrs.evolve(each, headers=()) for each in RECORDS]
KEYLESS = [attrs.evolve(each, key=None) if each.offset != 1 else each for each in RECORDS]
APPEND_TIME = TimestampType.LOG_APPEND_TIME


def run(data: bytes | bytearray | memoryview, **rules: Any) -> PreparedRecords:
    return prepare(data, AppendRules(**rules), BASE, NOW, 7)


def joined(prepared: PreparedRecords) -> bytes:
    data = b"".join(prepared.chunks)
    assert len(data) == prepared.size
    return data


def appended(prepared: PreparedRecords) -> list[LogEntry]:
    """The entries as a reader of the log finds them, and whether `PreparedRecords.entries` agrees with them."""
    found = list(entries(joined(prepared)))
    for entry, meta in zip(found, prepared.entries, strict=True):
        entry.check()
        assert (meta.last_offset, meta.size, meta.max_timestamp) == (entry.last_offset, entry.size, entry.max_timestamp)
        assert (meta.producer_id, meta.producer_epoch) == (entry.producer_id, entry.producer_epoch)
        assert (meta.base_sequence, meta.attributes) == (entry.base_sequence, entry.attributes)
        assert (meta.is_transactional, meta.is_control) == (entry.is_transactional, entry.is_control)
        if entry.count >= 0:
            assert (meta.base_offset, meta.count) == (entry.base_offset, entry.count)
            assert meta.last_sequence == entry.last_sequence
    return found


def rejected(data: bytes, **rules: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        run(data, **rules)
    return caught.value


def changed(data: bytes, position: int, format: str, value: int) -> bytes:
    """A v2 batch with one field of its header changed and its CRC right again."""
    new = bytearray(data)
    struct.pack_into(">" + format, new, position, value)
    struct.pack_into(">I", new, 17, crc32c(bytes(new[21:])))
    return bytes(new)


def newest_of(prepared: PreparedRecords) -> tuple[int, int]:
    """The newest timestamp, and the last offset of the first entry that has it; -1 without timestamps."""
    newest = max(prepared.entries, key=lambda meta: meta.max_timestamp)
    assert prepared.max_timestamp == newest.max_timestamp
    return newest.max_timestamp, newest.last_offset if newest.max_timestamp >= 0 else -1


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_a_batch_passes_with_16_new_bytes(codec: Codec, kind: Any) -> None:
    data = build(RECORDS, codec=codec, producer_id=5, producer_epoch=1, base_sequence=30, transactional=True)
    frame = kind(data)
    prepared = run(frame)
    [entry] = appended(prepared)
    assert (entry.base_offset, entry.last_offset, entry.leader_epoch) == (BASE, BASE + 2, 7)
    assert joined(prepared)[16:] == data[16:]
    assert bytes(frame) == data
    assert prepared == PreparedRecords(
        prepared.chunks,
        len(data),
        [AppendedEntry(BASE, BASE + 2, 3, len(data), NOW - 1, 16 | codec, 5, 1, 30)],
        BASE,
        BASE + 2,
        3,
        NOW - 1,
        -1,
    )
    assert prepared.entries[0].last_sequence == 32


def test_the_frame_is_not_copied() -> None:
    frame = bytearray(build(RECORDS))
    _, rest = run(memoryview(frame)).chunks
    frame[-1] ^= 0xFF
    assert rest[-1] == frame[-1]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("magic_codec", PEER_FORMATS, ids=str)
def test_every_client_format_is_stored_as_v2(peer: Any, magic_codec: tuple[int, Codec]) -> None:
    magic, codec = magic_codec
    sent = RECORDS if magic == 2 else PLAIN
    prepared = run(peer.write(sent, magic, codec))
    [entry] = appended(prepared)
    assert (entry.magic, entry.codec, entry.leader_epoch, entry.count) == (2, codec, 7, 3)
    expected = [attrs.evolve(each, offset=BASE + each.offset) for each in sent]
    if magic == 0:
        expected = [attrs.evolve(each, timestamp=-1) for each in expected]
    assert peer.read(joined(prepared)) == expected
    assert (prepared.base_offset, prepared.last_offset, prepared.count) == (BASE, BASE + 2, 3)
    newest = (NOW - 1, BASE + 2) if magic else (-1, -1)
    assert newest_of(prepared) == newest


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)
@pytest.mark.parametrize("target", Codec, ids=lambda codec: codec.name)
def test_compression_type_of_the_topic(magic: int, codec: Codec, target: Codec) -> None:
    prepared = run(build(PLAIN, magic=magic, codec=codec), codec=target, level=3)
    [entry] = appended(prepared)
    assert (entry.magic, entry.codec) == (2, target)
    assert [(each.offset, each.key, each.value) for each in entry.records()] == [
        (BASE + each.offset, each.key, each.value) for each in PLAIN
    ]


def test_recompression_keeps_the_producer() -> None:
    data = build(RECORDS, producer_id=5, producer_epoch=1, base_sequence=30, transactional=True)
    [entry] = appended(run(data, codec=Codec.GZIP))
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.is_transactional) == (5, 1, 30, True)
    assert [each.headers for each in entry.records()] == [each.headers for each in RECORDS]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("sent", "codec"), FORMATS, ids=str)
def test_topics_of_an_old_format(magic: int, sent: int, codec: Codec) -> None:
    data = build(PLAIN, magic=sent, codec=codec)
    if codec is Codec.ZSTD:
        assert rejected(data, magic=magic).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return
    prepared = run(data, magic=magic)
    found = appended(prepared)
    assert {(entry.magic, entry.codec) for entry in found} == {(magic, codec)}
    records = [record for entry in found for record in entry.records()]
    assert [(each.offset, each.key) for each in records] == [(BASE, b"a"), (BASE + 1, b"b"), (BASE + 2, b"c")]
    assert (prepared.base_offset, prepared.last_offset, prepared.count) == (BASE, BASE + 2, 3)
    assert sum(meta.count for meta in prepared.entries) == 3
    if magic and sent:
        newest = BASE + 1 if codec is Codec.NONE else BASE + 2
        assert newest_of(prepared) == (NOW - 1, newest)


@pytest.mark.parametrize(
    "options",
    [{"producer_id": 3, "producer_epoch": 0, "base_sequence": 0}, {"transactional": True}],
    ids=["idempotent", "transactional"],
)
def test_old_formats_have_no_producers(options: dict[str, Any]) -> None:
    error = rejected(build(PLAIN, **options), magic=1)
    assert error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert "message format v1 has neither idempotent producers nor transactions" in error.detail


def test_old_formats_have_no_headers() -> None:
    assert rejected(build(RECORDS), magic=1).code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_append_time_changes_the_header_alone(codec: Codec) -> None:
    data = build(RECORDS, codec=codec, producer_id=5, producer_epoch=1, base_sequence=30)
    prepared = run(data, timestamp_type=APPEND_TIME)
    [entry] = appended(prepared)
    assert (entry.max_timestamp, entry.timestamp_type, entry.first_timestamp) == (NOW, APPEND_TIME, NOW - 5)
    assert joined(prepared)[61:] == data[61:]
    assert {each.timestamp for each in PEERS[1].read(joined(prepared))} == {NOW}
    assert (prepared.max_timestamp, prepared.log_append_time) == (NOW, NOW)
    assert newest_of(prepared) == (NOW, BASE + 2)


@pytest.mark.parametrize(("magic", "codec"), [each for each in FORMATS if each[0] < 2], ids=str)
def test_append_time_for_converted_records(magic: int, codec: Codec) -> None:
    prepared = run(build(PLAIN, magic=magic, codec=codec), timestamp_type=APPEND_TIME)
    [entry] = appended(prepared)
    assert {each.timestamp for each in entry.records()} == {NOW}
    assert prepared.log_append_time == NOW


def test_append_time_on_a_topic_of_v1() -> None:
    prepared = run(build(PLAIN), magic=1, timestamp_type=APPEND_TIME)
    assert [each.timestamp for entry in appended(prepared) for each in entry.records()] == [NOW] * 3
    assert newest_of(prepared) == (NOW, BASE)


def test_append_time_ignores_the_bounds() -> None:
    rules = {"timestamp_type": APPEND_TIME, "timestamp_before_max_ms": 1, "timestamp_after_max_ms": 1}
    assert run(build([Record(0, 5, None, None)]), **rules).max_timestamp == NOW


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    ("rules", "index"),
    [({"timestamp_after_max_ms": 100}, 1), ({"timestamp_before_max_ms": 100}, 2)],
    ids=["after", "before"],
)
def test_timestamps_out_of_bounds(codec: Codec, rules: dict[str, int], index: int) -> None:
    times = [NOW, NOW + 101, NOW - 101]
    for magic in (1, 2):
        data = build([Record(0, time, None, None) for time in times], magic=magic, codec=Codec.GZIP)
        error = rejected(data, codec=codec, **rules)
        assert isinstance(error, InvalidRecords)
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert [at for at, _ in error.record_errors] == [index]
        assert str(times[index]) in error.record_errors[0][1]


@pytest.mark.parametrize(("early", "late"), [(100, 100), (0, 0)])
def test_timestamps_at_the_bounds_are_fine(early: int, late: int) -> None:
    data = build([Record(0, NOW - early, None, None), Record(1, NOW + late, None, None)])
    assert run(data, timestamp_before_max_ms=early, timestamp_after_max_ms=late).count == 2


def test_records_without_a_timestamp_have_none_to_check() -> None:
    assert run(build(PLAIN, magic=0), timestamp_before_max_ms=1, timestamp_after_max_ms=1).count == 3


CLAIMS = (-1, 0, 5, NOW - 5, NOW + 5000, NOW + 31_536_000_000, -(1 << 63), (1 << 63) - 1)
MAX_TIMESTAMP_AT, FIRST_TIMESTAMP_AT, ATTRIBUTES_AT = 35, 27, 21


class TestLargestTimestamp:
    """A header's largest timestamp is that of the records, whatever the producer claims."""

    @pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
    @pytest.mark.parametrize(
        "rules",
        [{}, {"timestamp_after_max_ms": 100}, {"timestamp_before_max_ms": 100}, {"keys_required": True}],
        ids=str,
    )
    def test_wrong_claims_are_put_right(self, codec: Codec, rules: dict[str, Any]) -> None:
        sent = build(RECORDS, codec=codec)
        for claim in CLAIMS:
            prepared = run(changed(sent, MAX_TIMESTAMP_AT, "q", claim), **rules)
            [entry] = appended(prepared)
            assert (entry.max_timestamp, prepared.max_timestamp) == (NOW - 1, NOW - 1)
            assert (entry.first_timestamp, entry.codec, entry.leader_epoch) == (NOW - 5, codec, 7)
            for peer in PEERS:
                assert [each.timestamp for each in peer.read(joined(prepared))] == [NOW - 5, NOW - 1, NOW - 9]

    @pytest.mark.parametrize("target", [None, Codec.ZSTD, Codec.NONE], ids=str)
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.name)
    def test_in_a_worker(self, codec: Codec, target: Codec | None) -> None:
        """The second validation, after `convert`, believes the first."""
        rules = AppendRules(codec=target)
        for claim in CLAIMS:
            sent = changed(build(RECORDS, codec=codec), MAX_TIMESTAMP_AT, "q", claim)
            prepared = prepare(convert(sent, rules, NOW), rules.after_conversion, BASE, NOW, 7)
            [entry] = appended(prepared)
            assert (entry.max_timestamp, prepared.max_timestamp) == (NOW - 1, NOW - 1)

    def test_right_claims_are_not_copied_in_a_worker(self) -> None:
        sent = build(RECORDS, codec=Codec.GZIP)
        assert convert(sent, AppendRules(), NOW) is sent

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name)
    @pytest.mark.parametrize("bound", ["timestamp_after_max_ms", "timestamp_before_max_ms"])
    def test_bounds_hold_for_the_records(self, codec: Codec, bound: str) -> None:
        times = {"timestamp_after_max_ms": NOW + 1001, "timestamp_before_max_ms": NOW - 1001}
        sent = build([Record(0, NOW, b"a", b""), Record(1, times[bound], b"b", b"")], codec=codec)
        for claim in (*CLAIMS, NOW):
            error = rejected(changed(sent, MAX_TIMESTAMP_AT, "q", claim), **{bound: 1000})
            assert isinstance(error, InvalidRecords)
            assert (error.code, [at for at, _ in error.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1])

    def test_records_after_the_thousandth(self) -> None:
        """Only a part of each is looked at if no two of them are alike."""
        made = [Record(n, NOW + n * 2, None, bytes(n * 29 % 90)) for n in range(3000)]
        prepared = run(changed(build(made), MAX_TIMESTAMP_AT, "q", -1))
        assert prepared.max_timestamp == NOW + 5998

    @pytest.mark.parametrize("first", [-5, -1000, -(1 << 62)])
    def test_negative_timestamps_count_as_none(self, first: int) -> None:
        for claim in (-1, first, NOW):
            sent = changed(build(RECORDS), FIRST_TIMESTAMP_AT, "q", first)
            prepared = run(changed(sent, MAX_TIMESTAMP_AT, "q", claim))
            [entry] = appended(prepared)
            expected = max(-1, first + 4)  # the second record is 4 ms after the first
            assert (entry.max_timestamp, prepared.max_timestamp) == (expected, expected)

    @pytest.mark.parametrize("first", [(1 << 63) - 2, -(1 << 63) + 1])
    def test_timestamps_that_exceed_64_bits(self, first: int) -> None:
        for claim in (-1, first, NOW):
            sent = changed(build(RECORDS), FIRST_TIMESTAMP_AT, "q", first)
            error = rejected(changed(sent, MAX_TIMESTAMP_AT, "q", claim))
            assert isinstance(error, InvalidRecords)
            assert "64 bits" in str(error)

    def test_append_time_with_a_wrong_claim(self) -> None:
        for claim in CLAIMS:
            prepared = run(changed(build(RECORDS), MAX_TIMESTAMP_AT, "q", claim), timestamp_type=APPEND_TIME)
            [entry] = appended(prepared)
            assert (entry.max_timestamp, entry.first_timestamp, prepared.log_append_time) == (NOW, NOW - 5, NOW)

    @pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
    @pytest.mark.parametrize("magic", [0, 1])
    def test_sets_of_old_formats(self, magic: int, codec: Codec) -> None:
        """A wrapper's timestamp is a claim, too."""
        if (magic, codec) not in FORMATS:
            return
        wrong = bytearray(build(PLAIN, magic=1, codec=codec))
        if magic and codec:
            struct.pack_into(">q", wrong, 18, NOW + 5000)
            struct.pack_into(">I", wrong, 12, zlib.crc32(wrong[16:]))
        sent = bytes(wrong) if magic else build(PLAIN, magic=0, codec=codec)
        for target in (0, 1, 2):
            prepared = run(sent, magic=target)
            newest = max((entry.max_timestamp for entry in appended(prepared)), default=-1)
            assert newest == prepared.max_timestamp == (NOW - 1 if magic and target else -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.name)
def test_producers_do_not_set_a_delete_horizon(codec: Codec) -> None:
    """Compaction would take the first timestamp for the time at which tombstones may go."""
    sent = build(RECORDS, codec=codec)
    sent = changed(sent, ATTRIBUTES_AT, "h", 0x40 | codec)
    for data, rules in ((sent, AppendRules()), (convert(sent, AppendRules(), NOW), AppendRules().after_conversion)):
        [entry] = appended(prepare(data, rules, BASE, NOW, 7))
        assert (entry.attributes, entry.first_timestamp, entry.max_timestamp) == (codec, NOW - 5, NOW - 1)


def test_producers_do_not_set_append_time() -> None:
    data = build(RECORDS, timestamp_type=APPEND_TIME, append_time=NOW - 3)
    error = rejected(data, timestamp_type=APPEND_TIME)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [at for at, _ in error.record_errors] == [0, 1, 2]
    [entry] = appended(run(data))
    assert (entry.timestamp_type, entry.max_timestamp) == (TimestampType.CREATE_TIME, NOW - 1)
    assert [each.timestamp for each in entry.records()] == [NOW - 5, NOW - 1, NOW - 9]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
@pytest.mark.parametrize("rules", [{}, {"codec": Codec.SNAPPY}, {"timestamp_type": APPEND_TIME}], ids=str)
def test_compacted_topics_need_keys(codec: Codec, rules: dict[str, Any]) -> None:
    error = rejected(build(KEYLESS, codec=codec), keys_required=True, **rules)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [at for at, _ in error.record_errors] == [0, 2]
    assert run(build(RECORDS, codec=codec), keys_required=True, **rules).count == 3
    assert run(build(KEYLESS, codec=codec), **rules).count == 3


def test_keys_on_compacted_topics_from_old_clients() -> None:
    keyless = [attrs.evolve(each, headers=()) for each in KEYLESS]
    for codec in (Codec.NONE, Codec.GZIP):
        error = rejected(build(keyless, magic=1, codec=codec), keys_required=True)
        assert error.code is ErrorCode.INVALID_RECORD


def test_the_number_of_reported_records_is_bounded() -> None:
    error = rejected(build([Record(0, NOW, None, None)] * 5000), keys_required=True)
    assert isinstance(error, InvalidRecords)
    assert len(error.record_errors) == 1000


def test_max_message_bytes() -> None:
    data = build(RECORDS)
    assert run(data, max_bytes=len(data)).size == len(data)
    assert rejected(data, max_bytes=len(data) - 1).code is ErrorCode.MESSAGE_TOO_LARGE


def test_max_message_bytes_holds_after_conversion() -> None:
    packed = build([Record(0, NOW, None, bytes(5000))], codec=Codec.GZIP)
    assert len(packed) < 500
    assert rejected(packed, codec=Codec.NONE, max_bytes=500).code is ErrorCode.MESSAGE_TOO_LARGE


def test_max_message_bytes_is_per_message_before_v2() -> None:
    data = build(PLAIN, magic=1)
    largest = max(entry.size for entry in entries(data))
    assert len(appended(run(data, magic=1, max_bytes=largest))) == 3
    assert rejected(data, magic=1, max_bytes=largest - 1).code is ErrorCode.MESSAGE_TOO_LARGE


BATCH = build(RECORDS)
MARKER = build([Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\7")], producer_id=4, producer_epoch=0, control=True)
REJECTED = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "cut off": (BATCH[:-1], ErrorCode.INVALID_RECORD),
    "a few bytes": (BATCH[:11], ErrorCode.INVALID_RECORD),
    "bad CRC": (BATCH[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
    "magic 3": (BATCH[:16] + b"\3" + BATCH[17:], ErrorCode.CORRUPT_MESSAGE),
    "size 10": (BATCH[:8] + b"\0\0\0\x0a" + BATCH[12:], ErrorCode.CORRUPT_MESSAGE),
    "two batches": (BATCH + BATCH, ErrorCode.INVALID_RECORD),
    "two compressed sets": (build(PLAIN, magic=1, codec=Codec.GZIP) * 2, ErrorCode.INVALID_RECORD),
    "mixed formats": (build(PLAIN, magic=1) + build(PLAIN, magic=0), ErrorCode.INVALID_RECORD),
    "a batch behind a message": (build(PLAIN[:1], magic=1) + BATCH, ErrorCode.INVALID_RECORD),
    "control batch": (changed(MARKER, 53, "i", 1), ErrorCode.INVALID_RECORD),
    "base offset": (build(RECORDS, base_offset=1), ErrorCode.INVALID_RECORD),
    "count 0": (changed(BATCH, 57, "i", 0), ErrorCode.INVALID_RECORD),
    "empty batch": (changed(changed(build(RECORDS[:1])[:61], 57, "i", 0), 8, "i", 49), ErrorCode.INVALID_RECORD),
    "empty batch of no offsets": (
        changed(changed(changed(build(RECORDS[:1])[:61], 57, "i", 0), 8, "i", 49), 23, "i", -1),
        ErrorCode.INVALID_RECORD,
    ),
    "count -1": (changed(BATCH, 57, "i", -1), ErrorCode.INVALID_RECORD),
    "count and offsets differ": (changed(BATCH, 57, "i", 2), ErrorCode.INVALID_RECORD),
    "negative offset delta": (changed(BATCH, 23, "i", -5), ErrorCode.INVALID_RECORD),
    "producer without a sequence": (build(RECORDS, producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "first producer without a sequence": (build(RECORDS, producer_id=0, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "codec 5": (changed(BATCH, 21, "h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "damaged v1": (build(PLAIN, magic=1)[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.parametrize("rules", [{}, {"timestamp_type": APPEND_TIME}, {"keys_required": True}], ids=str)
def test_rejected(name: str, rules: dict[str, Any]) -> None:
    data, code = REJECTED[name]
    error = rejected(data, **rules)
    assert error.code is code
    assert isinstance(error, CorruptRecords) == (code is ErrorCode.CORRUPT_MESSAGE)


def test_a_cut_off_tail_is_dropped() -> None:
    assert joined(run(BATCH + BATCH[:-1])) == joined(run(BATCH))
    assert run(build(PLAIN, magic=1)[:-1]).count == 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.name)
def test_records_that_contradict_their_batch_are_invalid(codec: Codec) -> None:
    """Found only where records are decoded; the batch's CRC is right, so its producer is at fault."""
    data = changed(changed(build(RECORDS, codec=codec), 57, "i", 4), 23, "i", 3)
    assert rejected(data, keys_required=True).code is ErrorCode.INVALID_RECORD


def test_batches_of_the_broker_itself() -> None:
    rules = {"from_client": False, "codec": Codec.ZSTD, "keys_required": True}
    [entry] = appended(run(MARKER, **rules))
    assert (entry.is_control, entry.codec, entry.base_offset) == (True, Codec.NONE, BASE)
    [entry] = appended(run(build(RECORDS), **rules))
    assert (entry.is_control, entry.codec) == (False, Codec.ZSTD)


def test_old_sets_with_offsets_of_their_producers_own() -> None:
    """Some old clients number the messages inside of a v1 set as they like; brokers renumber them."""
    odd = [attrs.evolve(each, offset=offset) for each, offset in zip(PLAIN, (3, 4, 9), strict=True)]
    [entry] = appended(run(build(odd, magic=1, codec=Codec.GZIP, base_offset=None)))
    assert [each.offset for each in entry.records()] == [BASE, BASE + 1, BASE + 2]


def test_decompressed_size_is_bounded() -> None:
    bomb = build([Record(0, NOW, b"k", bytes(64 << 20))], codec=Codec.ZSTD)
    with peak_growth() as growth:
        for keys_required in (True, False):
            rules = AppendRules(keys_required=keys_required, decompressed_bytes_max=1 << 20)
            with pytest.raises(TooCostly):
                prepare(bomb, rules, BASE, NOW, 7)
            with pytest.raises(InvalidRecords, match="exceeds"):
                convert(bomb, rules, NOW)
    assert growth.bytes < 16 << 20
    assert convert(bomb, AppendRules(), NOW) == bomb


def test_rules_that_change_nothing_take_the_short_way() -> None:
    assert AppendRules().fast_attributes == {0, 1, 2, 3, 4, 16, 17, 18, 19, 20}
    assert AppendRules(codec=Codec.LZ4).fast_attributes == {3, 19}
    for rules in (
        {"keys_required": True},
        {"magic": 1},
        {"timestamp_type": APPEND_TIME},
        {"timestamp_before_max_ms": 5},
    ):
        assert AppendRules(**rules).fast_attributes == set()  # type: ignore[arg-type]
