"""Producer states: the table of accepted and rejected batches, and snapshots in Kafka's layout."""

from __future__ import annotations

import struct

import attrs
import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Marker
from pylogbroker.storage import Origin, ProducerStateEntry, ProducerStates
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.producer_states import WrittenBatch

MAX = 2**31 - 1
END = Marker(committed=True, coordinator_epoch=4)


@attrs.frozen
class Sent:
    """A batch, as far as producer states look at it."""

    base_sequence: int
    count: int = 1
    base_offset: int = 0
    producer_epoch: int = 0
    producer_id: int = 5
    max_timestamp: int = 1000
    is_transactional: bool = False
    is_control: bool = False
    marker: Marker | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.count - 1) % 2**31


def after(*sent: Sent) -> ProducerStates:
    states = ProducerStates()
    for entry in sent:
        states.record(entry)
    return states


def code_of(states: ProducerStates, sent: Sent, origin: Origin = Origin.CLIENT) -> ErrorCode:
    try:
        assert states.admit([sent], origin) is None
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


OK, ORDER, EPOCH = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("known", "sent", "code"),
    [
        ([], Sent(0), OK),
        ([], Sent(77, producer_epoch=9), OK),  # unknown producer: any sequence
        ([Sent(0, 3)], Sent(3), OK),
        ([Sent(0, 3)], Sent(4), ORDER),
        ([Sent(0, 3)], Sent(2, 5), ORDER),
        ([Sent(0, 3)], Sent(0, 2), ORDER),  # begins like a known batch but is another
        ([Sent(0, 3, producer_epoch=4)], Sent(3, producer_epoch=3), EPOCH),
        ([Sent(0, 3, producer_epoch=4)], Sent(0, 3, producer_epoch=3), EPOCH),
        ([Sent(0, 3, producer_epoch=4)], Sent(0, producer_epoch=5), OK),
        ([Sent(0, 3, producer_epoch=4)], Sent(3, producer_epoch=5), ORDER),
        ([Sent(MAX - 1, 2)], Sent(0), OK),
        ([Sent(MAX - 1, 2)], Sent(1), ORDER),
        ([Sent(MAX - 1, 4)], Sent(2), OK),  # the batch itself goes round
        ([Sent(MAX - 1, 4)], Sent(MAX), ORDER),
        ([Sent(-1, is_control=True, marker=END, producer_epoch=2)], Sent(0, producer_epoch=2), OK),
        ([Sent(-1, is_control=True, marker=END, producer_epoch=2)], Sent(1, producer_epoch=2), ORDER),
        ([Sent(0, 3)], Sent(17, producer_id=6), OK),
    ],
)
def test_batches_are_accepted_or_rejected_by_producer_state(known: list[Sent], sent: Sent, code: ErrorCode) -> None:
    assert code_of(after(*known), sent) is code


def test_the_last_five_batches_are_known_by_their_sequences() -> None:
    batches = [Sent(10 * n, 10, base_offset=100 + 10 * n) for n in range(7)]
    states = after(*batches)
    for batch in batches[2:]:
        repeated = states.admit([attrs.evolve(batch, base_offset=999)], Origin.CLIENT)
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (batch.base_offset, batch.base_offset + 9)
    for batch in batches[:2]:
        assert code_of(states, batch) is ORDER


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    states = after(Sent(0, 3), Sent(0, 2, producer_epoch=1))
    assert states.get(5) == ProducerStateEntry(5, 1, (WrittenBatch(0, 1, 0, 1, 1000),), 1000)


@pytest.mark.parametrize(
    ("origin", "sent", "code"),
    [
        (Origin.COORDINATOR, Sent(99), OK),
        (Origin.COORDINATOR, Sent(0, producer_epoch=0), EPOCH),
        (Origin.REPLICATION, Sent(99, producer_epoch=0), OK),
    ],
)
def test_sequences_count_for_clients_only(origin: Origin, sent: Sent, code: ErrorCode) -> None:
    known = Sent(0, producer_epoch=0 if code is OK else 1)
    assert code_of(after(known), sent, origin) is code


def test_transactions_are_followed_until_their_marker() -> None:
    states = after(Sent(0, base_offset=10, is_transactional=True))
    assert states.first_undecided_offset == 10
    states.record(Sent(0, base_offset=20, producer_id=6, is_transactional=True))
    states.record(Sent(1, base_offset=30, is_transactional=True))
    assert states.first_undecided_offset == 10
    assert code_of(states, Sent(2, base_offset=31)) is ErrorCode.INVALID_TXN_STATE
    states.record(Sent(-1, base_offset=40, is_control=True, marker=END))
    assert states.first_undecided_offset == 20
    states.record(Sent(-1, base_offset=50, producer_id=6, is_control=True, marker=END))
    assert states.first_undecided_offset is None


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    states = after(
        Sent(0, producer_id=1, max_timestamp=1000),
        Sent(0, producer_id=2, max_timestamp=2000),
        Sent(0, producer_id=3, max_timestamp=1000, is_transactional=True),
    )
    assert states.expire(now_ms=2999, after_ms=2000) == 0
    assert states.expire(now_ms=3000, after_ms=2000) == 1
    assert sorted(state.producer_id for state in states) == [2, 3]


# Snapshots.  The oracle is Kafka's schema: version int16, crc uint32, then an array of
# producer_id int64, epoch int16, last_sequence int32, last_offset int64, offset_delta int32, timestamp int64,
# coordinator_epoch int32, current_txn_first_offset int64; the crc is CRC-32C of the array.


def kafka_snapshot(*rows: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(rows)) + b"".join(struct.pack(">qhiqiqiq", *row) for row in rows)
    return struct.pack(">hI", 1, crcmod.predefined.mkCrcFun("crc-32c")(body)) + body


def test_the_layout_of_a_snapshot() -> None:
    states = after(
        Sent(4, 3, base_offset=100, producer_epoch=2, max_timestamp=777),
        Sent(0, 1, base_offset=200, producer_id=6, is_transactional=True),
        Sent(-1, base_offset=300, producer_id=7, is_control=True, marker=END, producer_epoch=1),
    )
    assert producer_snapshots.encode(states) == kafka_snapshot(
        (5, 2, 6, 102, 2, 777, -1, -1),
        (6, 0, 0, 200, 0, 1000, -1, 200),
        (7, 1, -1, -1, 0, 1000, 4, -1),
    )


def test_a_snapshot_is_read_back() -> None:
    data = kafka_snapshot((5, 2, 1, 102, 3, 777, 9, -1), (6, 0, -1, -1, 0, 888, -1, 200))
    assert producer_snapshots.decode(data) == [
        ProducerStateEntry(5, 2, (WrittenBatch(MAX - 1, 1, 99, 102, 777),), 777, 9),
        ProducerStateEntry(6, 0, (), 888, -1, 200),
    ]


@given(st.binary(max_size=120))
def test_noise_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(DamagedFile):
        producer_snapshots.decode(data)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(kafka_snapshot((5, 2, 1, 102, 3, 777, 9, -1)))
    data[place % len(data)] ^= change
    with pytest.raises(DamagedFile):
        producer_snapshots.decode(bytes(data))
