"""The layouts of keys and values, against bytes written down by hand from Kafka's schemas."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.transactions import TransactionSettings, TransactionState, record_schema
from pylogbroker.transactions.metadata import TransactionMetadata
from tests.transactions.harness import Harness

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
STORED = [state for state in TransactionState if state.label not in ("Dead", "PrepareEpochFence")]
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)

ONGOING = TransactionMetadata(
    7,
    2,
    TransactionState.ONGOING,
    60_000,
    frozenset({("t", 3), ("t", 1), ("été", 0)}),
    start_ms=1_000,
    updated_ms=1_500,
)
ONGOING_BYTES = bytes.fromhex(
    "0000 0000000000000007 0002 0000ea60 01"
    "00000002 0001 74 00000002 00000001 00000003 0005 c3a974c3a9 00000001 00000000"
    "00000000000005dc 00000000000003e8"
)


def test_keys() -> None:
    key = bytes.fromhex("0000 0004 78c3a979")
    assert record_schema.encode_key("xéy") == key
    assert record_schema.decode_key(key) == "xéy"
    assert record_schema.decode_key(b"\0\1" + key[2:]) is None


def test_a_transaction() -> None:
    assert record_schema.encode_value(ONGOING) == ONGOING_BYTES
    assert record_schema.decode_value(ONGOING_BYTES) == ONGOING


def test_an_empty_transaction_has_no_partitions() -> None:
    value = bytes.fromhex("0000 0000000000000007 0000 0000ea60 00 ffffffff 0000000000000005 ffffffffffffffff")
    metadata = TransactionMetadata(7, 0, TransactionState.EMPTY, 60_000, updated_ms=5)
    assert record_schema.encode_value(metadata) == value
    assert record_schema.decode_value(value) == metadata


def test_a_complete_transaction_has_no_partitions() -> None:
    value = bytes.fromhex("0000 0000000000000007 0000 0000ea60 04 00000000 0000000000000005 0000000000000004")
    metadata = TransactionMetadata(7, 0, TransactionState.COMPLETE_COMMIT, 60_000, start_ms=4, updated_ms=5)
    assert record_schema.encode_value(metadata) == value
    assert record_schema.decode_value(value) == metadata


@pytest.mark.parametrize(
    ("tags", "metadata"),
    [
        ("00", ONGOING),
        (
            "03 00 08 0000000000000009 01 08 000000000000000a 02 02 0002",
            attrs.evolve(ONGOING, last_producer_id=9, next_producer_id=10, client_version=2),
        ),
    ],
)
def test_version_1(tags: str, metadata: TransactionMetadata) -> None:
    """Flexible: previous and next producer id and the client's version are tagged, if they are there."""
    value = bytes.fromhex(
        "0001 0000000000000007 0002 0000ea60 01"
        "03 02 74 03 00000003 00000001 00 06 c3a974c3a9 02 00000000 00"
        "00000000000005dc 00000000000003e8" + tags
    )
    assert record_schema.decode_value(value) == metadata
    written = record_schema.encode_value(metadata, transaction_version=1)
    assert record_schema.decode_value(written) == metadata
    assert len(written) == len(value)


def test_the_states_have_kafkas_numbers_and_names() -> None:
    assert [(state.value, state.label) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


@given(
    st.builds(
        TransactionMetadata,
        INT64,
        st.integers(-1, 2**15 - 1),
        st.sampled_from(STORED[1:]),
        INT32,
        st.frozensets(st.tuples(TEXT, INT32), max_size=5),
        INT64,
        INT64,
        last_producer_id=INT64,
        next_producer_id=INT64,
        client_version=st.integers(0, 2),
    ),
    st.integers(0, 2),
)
def test_encoded_values_are_decoded(metadata: TransactionMetadata, transaction_version: int) -> None:
    decoded = record_schema.decode_value(record_schema.encode_value(metadata, transaction_version))
    if not transaction_version:
        metadata = attrs.evolve(metadata, last_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decoded == metadata


@given(st.binary(max_size=60) | st.builds(lambda rest: b"\0\0" + rest, st.binary(max_size=60)))
def test_nonsense_is_corrupt_and_nothing_else(value: bytes) -> None:
    for decode in (record_schema.decode_key, record_schema.decode_value):
        try:
            decode(value)
        except CorruptRecords:
            continue


@pytest.mark.parametrize(("name", "hashed"), [("x", 120), ("hello", 99_162_322), ("polygenelubricants", 0)])
def test_a_transactional_id_is_in_the_partition_that_kafka_puts_it_in(name: str, hashed: int) -> None:
    """Java's hash of the name, its sign bit cleared."""
    coordinator = Harness(TransactionSettings()).coordinator
    assert coordinator.partition_for(name) == hashed % 50
    coordinator.runtime.partitions = 7
    assert coordinator.partition_for(name) == hashed % 7


@pytest.mark.parametrize("cut", range(len(ONGOING_BYTES)))
def test_truncated_values_are_corrupt(cut: int) -> None:
    with pytest.raises(CorruptRecords):
        record_schema.decode_value(ONGOING_BYTES[:cut])
