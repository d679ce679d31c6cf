"""Every client reads what every client wrote, with every codec that both know: the same bytes, in the same order.

Each writer fills one topic, partition `i` with the codec `i`, from the canonical records of `model`.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tests.clients.adapters.base import ACKS, CODECS, Abilities, Client
from tests.clients.admin import create_topic
from tests.clients.conftest import CLIENTS
from tests.clients.model import Rec, in_log_order, placed
from tests.clients.stored_batches import batches
from tests.support.brokers import Broker

Written = tuple[str, list[Rec]]


@pytest.fixture(scope="session")
def written_by(broker: Broker, client_named: Callable[[str], Client]) -> Callable[[str], Written]:
    """The topic that a client wrote, and what it wrote; written once in the session."""
    done: dict[str, Written] = {}

    def get(name: str) -> Written:
        if name not in done:
            done[name] = _write(broker.bootstrap, client_named(name))
        return done[name]

    return get


def _write(bootstrap: str, writer: Client) -> Written:
    topic = f"matrix-{writer.name}-{id(writer):x}"
    create_topic(bootstrap, topic, len(CODECS))
    records: list[Rec] = []
    for index, codec in enumerate(writer.can.codecs):
        each = writer.can.canonical(CODECS.index(codec))
        writer.write(bootstrap, topic, each, codec=codec, acks=ACKS[1 + index % 2])
        records += each
    return topic, placed(records)


@pytest.mark.parametrize("writer", CLIENTS)
def test_codec_is_kept(bootstrap: str, writer: str, written_by: Callable[[str], Written]) -> None:
    topic, records = written_by(writer)
    for partition in sorted({record.partition for record in records}):
        stored = batches(bootstrap, topic, partition)
        assert {batch.magic for batch in stored} == {2}
        # librdkafka leaves a batch as it is when compression does not make it smaller
        assert {batch.codec for batch in stored} - {"none"} == {CODECS[partition]} - {"none"}


@pytest.mark.parametrize("writer", CLIENTS)
def test_reader_reads_writer(bootstrap: str, client: Client, writer: str, written_by: Callable[[str], Written]) -> None:
    topic, records = written_by(writer)
    expected = [record for record in records if CODECS[record.partition] in client.can.codecs]
    found = in_log_order(client.read(bootstrap, topic, sorted({record.partition for record in expected})))
    assert_same(found, expected, client.can)


def assert_same(found: list[Rec], expected: list[Rec], reader: Abilities) -> None:
    """Check all fields that the writer sets and the reader gets."""
    assert len(found) == len(expected)
    for seen, wanted in zip(found, expected, strict=True):
        if not reader.headers:
            wanted = attrs.evolve(wanted, headers=())
        if wanted.timestamp is None or not reader.reads_timestamps:
            wanted = attrs.evolve(wanted, timestamp=seen.timestamp)
        assert seen == wanted
