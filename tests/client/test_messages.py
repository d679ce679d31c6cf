"""Message sets: whatever way they are decoded, what the plain decoder finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.client import messages
from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.messages import Message, Messages, MessageSet, Piece
from pylogbroker.client.plugin_guards import guarded_decoder
from pylogbroker.client.plugin_lookup import DECODER, resolve_plugin
from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Codec, Record, TimestampType, build, end_marker, entries
from tests.records.reference_codecs import FORMATS
from tests.records.strategies import alike, records_for
from tests.records.test_decompression_errors import reseal
from tests.support.examples import examples

PLAIN = {str, int, TimestampType, bytes, type(None), tuple}  # and nothing of numpy's


def as_message(record: Record) -> Message:
    return Message(
        "t", 3, record.offset, record.timestamp, record.timestamp_type,
        record.key, record.value, record.headers, record.offset + 1,
    )  # fmt: skip


def plain(data: bytes) -> list[Message]:
    return [as_message(record) for entry in entries(data, partial=True) for record in entry.records()]


def values(count: int, first: int = 0, **more: object) -> bytes:
    return build([Record(0, 5, None, b"%d" % each) for each in range(count)], base_offset=first, **more)  # type: ignore[arg-type]


@pytest.fixture(params=[0, 10**9], ids=["by columns", "one by one"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_SINGLE_RECORDS_MAX", request.param)


@given(
    st.lists(st.sampled_from(FORMATS).flatmap(lambda each: st.tuples(st.just(each), records_for(each[0])))), st.data()
)
@settings(max_examples=examples(60), deadline=None)
def test_every_format(parts: list[Any], draw: st.DataObject) -> None:
    data, offset = b"", 0
    for (magic, codec), records in parts:
        kind = draw.draw(st.sampled_from(TimestampType))
        data += build(records, magic=magic, codec=codec, base_offset=offset, timestamp_type=kind, append_time=99)
        offset += len(records)
    expected = plain(data)
    for threshold in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(messages, "_SINGLE_RECORDS_MAX", threshold)
            found = MessageSet("t", 3, data)
            assert list(found) == expected
            assert [type(each) for each in found] == [Message] * len(expected)
            assert found.next_offset == len(expected)


@given(alike(), st.integers(0, 200))
@settings(max_examples=examples(100), deadline=None)
def test_messages_that_are_alike(records: list[Record], first: int) -> None:
    expected = [as_message(each) for each in records if each.offset >= first]
    for stride in (1, 64, 1024):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(messages, "_SINGLE_RECORDS_MAX", 0)
            patch.setattr(messages, "_MESSAGES_AT_ONCE", stride)
            found = list(MessageSet("t", 3, build(records, base_offset=None), first))
            assert found == expected
            assert {type(cell) for each in found for cell in each} <= PLAIN


@pytest.mark.usefixtures("few")
def test_kinds_of_timestamps_in_one_piece() -> None:
    appended = values(2, 2, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=77)
    found = [(each.timestamp, each.timestamp_type) for each in MessageSet("t", 0, values(2) + appended)]
    assert found == [(5, TimestampType.CREATE_TIME)] * 2 + [(77, TimestampType.LOG_APPEND_TIME)] * 2
    assert all(isinstance(kind, TimestampType) for _, kind in found)


@pytest.mark.usefixtures("few")
def test_headers() -> None:
    records = [Record(each, 5, b"k", None, (("a", b"%d" % each), ("b", None))[: each % 3]) for each in range(3000)]
    assert list(MessageSet("t", 3, build(records))) == [as_message(each) for each in records]


@pytest.mark.usefixtures("few")
def test_from_an_offset_on() -> None:
    data = values(5) + values(5, 5)
    assert [each.value for each in MessageSet("t", 0, data, 7)] == [b"2", b"3", b"4"]
    assert MessageSet("t", 0, data, 7).next_offset == 10
    assert list(MessageSet("t", 0, data, 12)) == []
    assert MessageSet("t", 0, data, 12).next_offset == 12
    assert MessageSet("t", 0, b"", 12).next_offset == 12


@pytest.mark.usefixtures("few")
def test_a_cut_off_end() -> None:
    whole = values(5)
    for length in range(len(whole)):
        found = MessageSet("t", 0, whole + values(5, 5)[:length])
        assert len(list(found)) == 5
        assert (found.next_offset, found.valid_bytes) == (5, len(whole))


@pytest.mark.usefixtures("few")
def test_messages_before_the_damage_are_read() -> None:
    bad = values(5, 5)
    found = MessageSet("t", 0, values(5) + bad[:-1] + b"?" + values(5, 10))
    for _ in range(2):
        coming = iter(found)
        assert [next(coming).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(CorruptRecords):
            next(coming)
    unchecked = MessageSet("t", 0, bad[:-1] + b"\0", check_crcs=False)
    assert len(list(unchecked)) == 5


@pytest.mark.usefixtures("few")
def test_a_batch_with_inconsistent_lengths_returns_nothing() -> None:
    bad = values(5, 5)
    damaged = bad[:-3] + b"\0" + bad[-2:]  # the last value's length
    coming = iter(MessageSet("t", 0, values(5) + reseal(damaged)))
    assert [next(coming).offset for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptRecords):
        next(coming)


def test_the_end_of_nonsense() -> None:
    found = MessageSet("t", 0, values(5) + b"?" * 100)
    assert (found.next_offset, found.valid_bytes) == (5, len(values(5)))


@pytest.mark.usefixtures("few")
def test_transactions() -> None:
    def part(producer: int, first: int) -> bytes:
        return values(2, first, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    marker = end_marker(False, 0, 8, 0, 5)
    data = part(7, 0) + part(8, 2) + (4).to_bytes(8) + marker[8:] + part(8, 5)
    assert [each.offset for each in MessageSet("t", 0, data)] == [0, 1, 2, 3, 5, 6]
    assert [each.offset for each in MessageSet("t", 0, data, aborted=[(8, 2)])] == [0, 1, 5, 6]
    assert MessageSet("t", 0, data[: -len(part(8, 5))]).next_offset == 5


@pytest.mark.parametrize("count", [3, 300])
def test_a_record_that_a_decoder_rejects_is_named(count: int) -> None:
    def reject_one(value: bytes | None) -> Any:
        if value == b"1":
            raise PluginFailed("fussy", "it does not like it") from LookupError("so")
        return value

    data = build([Record(0, 5, b"%d" % number, b"%d" % number) for number in range(count)])
    for part in "decode_key", "decode_value":
        coming = iter(MessageSet("orders", 7, data, **{part: reject_one}))
        assert next(coming).offset == 0
        with pytest.raises(PluginFailed, match=r"^plugin fussy: it does not like it, at orders/7@1$") as caught:
            next(coming)
        assert isinstance(caught.value.__cause__, LookupError)
        assert caught.value.plugin == "fussy"
        assert next(coming).offset == 2


def test_decoders() -> None:
    as_json = guarded_decoder(resolve_plugin(DECODER, "value.deserializer", "json", {}))
    rows = [b"1", b"[2]", b"no json", b"null", None]
    data = build([Record(0, 5, b"\xc3\xa4", value) for value in rows])
    coming = iter(
        MessageSet("t", 0, data, decode_value=as_json, decode_key=lambda key: str(key, "utf-8") if key else None)
    )
    first, second = next(coming), next(coming)
    assert (first.key, first.value, second.value) == ("ä", 1, [2])
    with pytest.raises(PluginFailed, match="json"):
        next(coming)
    assert [each.offset for each in coming] == [3, 4]


def test_decoding_is_done_when_somebody_looks() -> None:
    looked: list[bytes | None] = []
    coming: Iterator[Message] = iter(MessageSet("t", 0, values(300), decode_value=looked.append))
    assert looked == []
    next(coming)
    assert looked == [b"0"]


def test_messages_are_values() -> None:
    [message] = MessageSet("t", 0, build([Record(0, 5, b"k", b"v", (("h", b"x"),))], codec=Codec.GZIP, base_offset=8))
    assert {message: 1}[message] == 1
    assert json.loads(json.dumps(message.offset)) == 8
    with pytest.raises(AttributeError):
        message.offset = 9  # type: ignore[misc]


def read(pieces: Iterator[Piece]) -> Messages:
    return Messages([list(piece) if isinstance(piece, Iterator) else piece for piece in pieces])


@pytest.mark.usefixtures("few")
def test_messages_are_a_sequence() -> None:
    records = [Record(each, each, b"k" * (each % 3) or None, b"%d" % each) for each in range(300)]
    expected = [as_message(record) for record in records]
    found = Messages([read(MessageSet("t", 3, build(records)).pieces()), expected[:7]])
    both = expected + expected[:7]
    assert len(found) == 307
    assert list(found) == both
    assert list(found) == both, "a second loop sees the same"
    assert found == both
    assert found != both[:-1]
    assert found != [*both[:-1], both[0]]
    assert found != 307
    assert [found[at] for at in (0, 5, 299, 300, 306, -1, -8, -307)] == [
        both[at] for at in (0, 5, 299, 300, 306, -1, -8, -307)
    ]
    for cut in (slice(3), slice(290, 303), slice(-9, -2), slice(None, None, -1), slice(5, 200, 7), slice(9, 3)):
        assert list(found[cut]) == both[cut]
    for beyond in (307, -308):
        with pytest.raises(IndexError):
            found[beyond]
    assert found.keys() == [message.key for message in both]
    assert found.values() == [message.value for message in both]
    assert repr(Messages([expected[:1]])) == f"Messages([{expected[0]!r}])"
    assert not Messages()


@pytest.mark.usefixtures("few")
def test_pieces_can_be_cut_again() -> None:
    records = [Record(each, 5, None, b"%d" % each) for each in range(40)]
    expected = [as_message(record) for record in records]
    for piece in MessageSet("t", 3, build(records)).pieces():
        if isinstance(piece, Iterator):
            continue
        cut = piece[10:][5:20]
        assert list(cut) == expected[15:30]
        assert (cut[0], cut[-1], cut[3:5][1]) == (expected[15], expected[29], expected[19])
        assert list(cut[::3]) == expected[15:30:3]
        assert list(cut[15:]) == []
        with pytest.raises(IndexError):
            cut[15]


def test_columns() -> None:
    [columns] = MessageSet("t", 0, values(9), 4).columns()
    assert columns.offsets.tolist() == [4, 5, 6, 7, 8]
    assert columns.values() == [b"4", b"5", b"6", b"7", b"8"]
