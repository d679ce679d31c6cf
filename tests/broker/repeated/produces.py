"""Produce requests for pairs of nodes, and what they are made of."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from pylogbroker.broker.apis import APIS
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.repeated.pairs import Pair
from tests.storage.support import batch

START_MS = 1_700_000_000_000
[VERSIONS] = (api.versions for api in APIS if api.name == "Produce")
MODERN = [version for version in range(VERSIONS.first, VERSIONS.last + 1) if version >= 3]
PRODUCER = 9


def produce(records: bytes, acks: int = 1, topic: str = "t", index: int = 0) -> ProduceRequest:
    return ProduceRequest(None, acks, 1000, [TopicProduceData(topic, [PartitionProduceData(index, records)])])


def value(number: int) -> bytes:
    return b"%d" % number * (1 + number % 7)


def usual_requests(pair: Pair, *requests: ProduceRequest, version: int = 9) -> int:
    """Let both sides receive requests at once; return how many the learning one handled as usual."""
    before = pair.learning.usual
    pair.receive(*((request, version, number) for number, request in enumerate(requests)))
    return pair.learning.usual - before


@attrs.frozen
class Sent:
    """A produce request of the model; `sequence` is relative to what its producer has sent, None for no producer."""

    index: int
    acks: int
    values: int
    late_by: int | None
    codec: int
    transactional: bool
    damage: int


SENT = st.builds(
    Sent,
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from((1, 1, 1, 1, -1, -1, 0, 5)),
    st.integers(1, 3),
    st.sampled_from((*(None,) * 6, *(0,) * 6, 1, -1)),
    st.sampled_from((*(0,) * 6, 1, 3)),
    st.sampled_from((*(False,) * 12, True)),
    st.sampled_from((*(-1,) * 14, 8, 17, 22, 50, 64)),
)


def requests_of(
    sent: list[Sent], topic: str, version: int, next_sequence: list[int], usual_acks: int = 1
) -> list[tuple[ProduceRequest, int, int]]:
    requests = []
    for number, one in enumerate(sent):
        producer = (-1, -1, -1)
        if one.late_by is not None:
            producer = (PRODUCER, 0, max(next_sequence[one.index] - one.late_by, 0))
            next_sequence[one.index] = producer[2] + one.values
        values = [value(number + n) for n in range(one.values)]
        records = bytearray(batch(values, [START_MS] * one.values, producer, one.codec, one.transactional))
        if one.damage >= 0:
            records[one.damage % len(records)] ^= 0x10
        acks = usual_acks if one.acks == 1 else one.acks
        requests.append((produce(bytes(records), acks, topic, one.index), version, number))
    return requests
