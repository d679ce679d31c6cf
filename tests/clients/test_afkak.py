"""afkak's own producer, which spreads keys over partitions, and its consumer's commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.clients.adapters.afkak import Afkak
from tests.clients.adapters.base import Client
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic

KEYS = [f"key {number}" for number in range(20)]


@pytest.fixture
def afkak(client_named: Callable[[str], Client]) -> Afkak:
    return cast(Afkak, client_named("afkak"))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_producer_spreads_keys_over_partitions(bootstrap: str, topic: str, afkak: Afkak, codec: str, acks: str) -> None:
    create_topic(bootstrap, topic, 3)
    afkak.call("send", bootstrap, topic, codec, acks, ",".join(KEYS))
    found = [record for each in range(3) for record in KafkaPython().read_from(bootstrap, topic, each, 0, 1)]
    assert {record.partition for record in found} == {0, 1, 2}
    if acks != "0":  # those are in the log when they are acknowledged, the others soon
        everything = KafkaPython().read(bootstrap, topic, [0, 1, 2])
        assert sorted((record.key or b"").decode() for record in everything) == sorted(KEYS)
        assert all(record.value == b"value of " + (record.key or b"") for record in everything)


def test_bounds(bootstrap: str, topic: str, afkak: Afkak) -> None:
    afkak.call("send", bootstrap, topic, "none", "1", "a,b,c")
    assert afkak.call("bounds", bootstrap, topic, 0) == [["0", "3"]]
