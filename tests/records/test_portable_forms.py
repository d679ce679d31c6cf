"""Compressed batches are stored only in forms that all consumers read: Java's, those in Python, librdkafka's, Go's."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import attrs
import pytest

from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Codec, Record, build, crc32c
from pylogbroker.records.batch import CRC_START, HEADER_V2, LENGTH_START
from pylogbroker.records.portable_forms import is_portable
from pylogbroker.records.validate.append_rules import AppendRules
from pylogbroker.records.validate.batches import convert, prepare
from pylogbroker.records.validate.record_errors import TooCostly
from tests.peers.java import Program
from tests.records.odd_payloads import payloads
from tests.records.reference_codecs import PEERS, Peer
from tests.support.oracle_answers import OracleAnswers

NOW_MS = 1_700_000_000_000
VALUES = [b"value %d of a log, some text " % number * 100 for number in range(50)]  # more than a block of each codec
PLAIN = build([Record(number, NOW_MS, None, value) for number, value in enumerate(VALUES)])
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
by_codec = pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)

NOT_READ_ELSEWHERE: dict[Codec, dict[str, str]] = {
    Codec.GZIP: {
        "reserved flag 5": "librdkafka, Go",
        "reserved flag 6": "librdkafka, Go",
        "reserved flag 7": "librdkafka, Go",
        "a byte after the end": "Go",
        "zeros after the end": "Go",
        "two members": "librdkafka hangs",
        "an empty member first": "librdkafka hangs",
    },
    Codec.SNAPPY: {},
    Codec.LZ4: {
        "content size of nothing": "Go",
        "a skippable frame last": "librdkafka",
        "an empty frame last": "librdkafka",
    },
    Codec.ZSTD: {},
}
"""Cases that Java and Python read, but librdkafka 2.16, franz-go 1.22, or the libraries of sarama do not."""

REJECTED_BUT_READ_BY_JAVA = {
    Codec.GZIP: {f"reserved flag {bit}" for bit in (5, 6, 7)} | {"text after the end", "half a header after the end"},
    Codec.SNAPPY: {
        "two streams",
        "two streams, the second of version 9",
        "a header last",
        "an empty stream first",
        "a byte after the end",
        "three bytes after the end",
    },
    Codec.LZ4: {
        "content size, too small",
        "content size, too large",
        "content size, huge",
        "content checksum, wrong",
        "an empty stored block as end",
        "a byte after the end",
        "zeros after the end",
        "text after the end",
    },
    Codec.ZSTD: {"a magic after the end", "a skippable frame, cut off"},
}
"""Cases with nonsense that Java's consumer does not look at; other consumers reject them."""


def _batch(codec: Codec, payload: bytes) -> bytes:
    """Return the batch with other bytes for its records."""
    fields = list(HEADER_V2.unpack_from(PLAIN))
    fields[1], fields[5] = HEADER_V2.size - LENGTH_START + len(payload), int(codec)
    fields[4] = crc32c(HEADER_V2.pack(*fields)[CRC_START:] + payload)
    return HEADER_V2.pack(*fields) + payload


@attrs.frozen
class Case:
    """A batch, and how it is stored; None if it is rejected."""

    name: str
    sent: bytes
    stored: bytes | None


def _stored(sent: bytes) -> bytes | None:
    try:
        return bytes(convert(sent, AppendRules(), NOW_MS))
    except InvalidRecords:
        return None


@cache
def _cases(codec: Codec) -> list[Case]:
    found = payloads(codec, PLAIN[HEADER_V2.size :])
    batches = {name: _batch(codec, payload) for name, payload in found.items()}
    return [Case(name, sent, _stored(sent)) for name, sent in batches.items()]


def _values(peer: Peer, batch: bytes) -> list[bytes | None] | None:
    try:
        return [record.value for record in peer.read(batch)]
    except BaseException:  # they raise anything, also what a library in Rust panics with
        return None


def _ask(program: Program) -> list[list[object]]:
    """Return name, and whether Java's consumer reads the batch as sent and as stored."""
    cases = [case for codec in COMPRESSED for case in _cases(codec)]
    batches = [batch for case in cases for batch in (case.sent, case.stored or b"")]
    said = program.run(input="".join(f"{batch.hex()}\n" for batch in batches)).stdout.splitlines()
    right = f"{len(VALUES)} {zlib.crc32(b''.join(VALUES))}"
    reads = [answer == right for answer in said]
    return [[case.name, *two] for case, *two in zip(cases, reads[::2], reads[1::2], strict=True)]


def test_stored_batches_are_those_that_all_consumers_read(oracle: OracleAnswers) -> None:
    program = Program(Path(__file__).with_name("Consumed.java"), "clients-3.9")
    names = [f"{codec.name} {case.name}" for codec in COMPRESSED for case in _cases(codec)]
    answers = iter(oracle.answer("compressed-forms", "\n".join(names), lambda: _ask(program)))
    for codec in COMPRESSED:
        rejected = set()
        for case, (name, java_reads_sent, java_reads_stored) in zip(_cases(codec), answers, strict=False):
            assert case.name == name
            is_read = {peer.name: _values(peer, case.sent) == VALUES for peer in PEERS} | {"Java": java_reads_sent}
            others = NOT_READ_ELSEWHERE[codec].get(name)
            if case.stored is None:
                if java_reads_sent:
                    rejected.add(name)
                assert others or not all(is_read.values()), f"{codec.name}, {name}: rejected, although all read it"
                continue
            assert java_reads_stored, f"{codec.name}, {name}: stored so that Java does not read it"
            assert is_portable(codec, case.stored[HEADER_V2.size :]), f"{codec.name}, {name}"
            for peer in PEERS:
                assert _values(peer, case.stored) == VALUES, f"{codec.name}, {name}: stored so that {peer.name} fails"
            if case.stored == case.sent:
                assert others is None, f"{codec.name}, {name}: stored as it came, not read by {others}"
        assert rejected == REJECTED_BUT_READ_BY_JAVA[codec]


@by_codec
def test_usual_forms_are_stored_as_they_came(codec: Codec) -> None:
    names = ["usual", *(name for name in USUAL[codec])]
    cases = {case.name: case for case in _cases(codec)}
    assert [name for name in names if cases[name].stored != cases[name].sent] == []


USUAL = {
    Codec.GZIP: ("stored", "name", "comment", "extra field", "text flag", "header checksum"),
    Codec.SNAPPY: ("raw", "one large block", "small blocks", "an empty block within"),
    Codec.LZ4: (
        *(f"blocks of {size}" for size in ("256 KB", "1 MB", "4 MB")),
        "stored blocks",
        "a short block before others",
        "content size",
        "content checksum",
        "block checksums",
    ),
    Codec.ZSTD: ("content size", "level 19", "checksum", "single segment", "window of 2^27", "two frames"),
}


@by_codec
def test_the_reactor_leaves_other_forms_to_a_thread(codec: Codec) -> None:
    for case in _cases(codec):
        for rules in (AppendRules(inline_bytes_max=1 << 20), AppendRules(timestamp_before_max_ms=1000)):
            if case.stored not in (None, case.sent):
                with pytest.raises(TooCostly):
                    prepare(case.sent, rules, 0, NOW_MS, 0)
                again = bytes(convert(case.sent, rules, NOW_MS))
                assert is_portable(codec, again[HEADER_V2.size :])
                prepare(again, rules.after_conversion, 0, NOW_MS, 0)


@by_codec
def test_damaged_data_is_never_an_error_of_another_kind(codec: Codec) -> None:
    packed = payloads(codec, PLAIN[HEADER_V2.size :][:3000])
    for payload in packed.values():
        for end in range(0, len(payload), 97):
            is_portable(codec, payload[:end])
            is_portable(codec, payload[:end] + b"\xff" * 9)
