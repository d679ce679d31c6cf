"""Reading from where the reader says: an offset, a time, a commit; and what is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import attrs
import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from tests.clients.adapters.base import Client, Committer, Rejected
from tests.clients.adapters.confluent import Confluent
from tests.clients.admin import admin_client, create_topic
from tests.clients.conftest import CLIENTS
from tests.clients.model import START, Rec, placed
from tests.support.brokers import Broker

COUNT = 300
#: records are a minute apart; the one at 100 comes late: it bears the time of the one at 10
STEP = 10_000
LATE, LATE_TIME = 100, START + 10 * STEP
COMMITTERS = [name for name in CLIENTS if name != "kcat"]
OFFSET_OUT_OF_RANGE = 1
#: librdkafka's own number for what it makes of it
AUTO_OFFSET_RESET = -140


@pytest.fixture(scope="module")
def filled(broker: Broker) -> str:
    """A topic of COUNT records, in batches of 20, over several segments."""
    topic = f"filled-{id(broker):x}"
    create_topic(broker.bootstrap, topic, configs={"segment.bytes": "4096", "index.interval.bytes": "512"})
    for first in range(0, COUNT, 20):
        Confluent().write(broker.bootstrap, topic, _records()[first : first + 20])
    return topic


def _records() -> list[Rec]:
    return [
        Rec(f"value {number} {'x' * 50}".encode(), timestamp=LATE_TIME if number == LATE else START + number * STEP)
        for number in range(COUNT)
    ]


@pytest.fixture(params=[name for name in CLIENTS if name != "afkak"])
def finder(request: pytest.FixtureRequest, client_named: Callable[[str], Client]) -> Client:
    """Clients that look offsets up by time."""
    return client_named(request.param)


@pytest.mark.parametrize("offset", [0, 1, 19, 20, 157, COUNT - 3])
def test_seek_to_an_offset(bootstrap: str, filled: str, client: Client, offset: int) -> None:
    found = client.read_from(bootstrap, filled, 0, offset, 3)
    expected = placed(_records())[offset : offset + 3]
    if not client.can.reads_timestamps:
        expected = [attrs.evolve(each, timestamp=None) for each in expected]
    assert found == expected


def test_seek_to_a_time(bootstrap: str, filled: str, finder: Client) -> None:
    def at(timestamp: int) -> int | None:
        return finder.offset_at(bootstrap, filled, 0, timestamp)

    assert at(START - 1) == 0
    assert at(START + 57 * STEP) == 57
    assert at(START + 57 * STEP + 1) == 58
    assert at(LATE_TIME) == 10
    assert at(START + LATE * STEP) == LATE + 1  # the late one has an earlier time
    assert at(START + (COUNT - 1) * STEP) == COUNT - 1
    assert at(START + COUNT * STEP) is None


def test_healthy_topic_has_its_offsets(bootstrap: str, filled: str) -> None:
    """The bounds are those of the log, not zeros, in every version that a client asks with."""
    with admin_client(bootstrap) as admin:
        partition = TopicPartition(filled, 0)
        found = {
            spec: admin.list_partition_offsets({partition: spec})[partition]
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)
        }
    assert found[OffsetSpec.EARLIEST].offset == 0
    assert found[OffsetSpec.LATEST].offset == COUNT
    last = found[OffsetSpec.MAX_TIMESTAMP]
    assert (last.offset, last.timestamp) == (COUNT - 1, START + (COUNT - 1) * STEP)


@pytest.mark.parametrize("name", ["confluent", "kcat"])
def test_offset_out_of_range(bootstrap: str, filled: str, name: str, client_named: Callable[[str], Client]) -> None:
    with pytest.raises(Rejected) as rejected:
        client_named(name).read_from(bootstrap, filled, 0, COUNT + 1000, 1)
    assert rejected.value.code in (OFFSET_OUT_OF_RANGE, AUTO_OFFSET_RESET)
    assert "out of range" in str(rejected.value).lower()


@pytest.fixture(scope="module")
def groups(broker: Broker, client_named: Callable[[str], Client]) -> Callable[[str], str]:
    """A group of each committer's own, in which it has committed."""
    done: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in done:
            done[name] = f"commits-of-{name}-{id(broker):x}"
            create_topic(broker.bootstrap, done[name], 3)
            committer = cast(Committer, client_named(name))
            committer.commit(broker.bootstrap, done[name], done[name], 1, 7, "replaced")
            committer.commit(broker.bootstrap, done[name], done[name], 1, 11, f"von {name}: grüße")
            committer.commit(broker.bootstrap, done[name], done[name], 2, 5, "")
        return done[name]

    return get


@pytest.mark.parametrize("reader", COMMITTERS)
@pytest.mark.parametrize("writer", COMMITTERS)
def test_every_client_sees_every_clients_commits(
    bootstrap: str, writer: str, reader: str, groups: Callable[[str], str], client_named: Callable[[str], Client]
) -> None:
    group = groups(writer)
    looks = cast(Committer, client_named(reader))
    for partition, offset, metadata in ((1, 11, f"von {writer}: grüße"), (2, 5, "")):
        if metadata and reader == "confluent":
            continue  # it takes what it gets for a C string, and reads on beyond its end
        found = looks.committed(bootstrap, group, group, partition) or (-1, "nothing")
        # confluent-kafka commits the end of its own C string along with the metadata
        assert (found[0], found[1].removesuffix("\0")) == (offset, metadata)
