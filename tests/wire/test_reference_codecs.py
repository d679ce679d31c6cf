"""Every message in every version, both ways, against other implementations in Python.

`test_java_messages` compares those that have none.
"""

from __future__ import annotations

from random import Random

import pytest

from pylogbroker.wire import SUPPORTED, WireMessage, codec
from tests.support.budget import Budget
from tests.support.examples import examples
from tests.wire.kafka_apis import LATEST, declared, names, versions
from tests.wire.random_messages import messages
from tests.wire.reference_codecs import PEERS


def test_every_api_of_the_table_is_declared() -> None:
    declared = {
        request.__name__.removesuffix("Request"): (key, request.versions.last)
        for key, (request, _) in SUPPORTED.items()
    }
    assert {name: declared.get(name) for name in LATEST} == LATEST


@pytest.mark.parametrize(("key", "pair"), SUPPORTED.items(), ids=str)
def test_a_request_and_its_response_belong_together(
    key: int, pair: tuple[type[WireMessage], type[WireMessage]]
) -> None:
    request, response = pair
    assert request.api_key == response.api_key == key
    assert request.versions == response.versions
    assert response.__name__ == request.__name__.replace("Request", "Response")


@pytest.mark.parametrize("name", names())
def test_messages_match_a_peers_both_ways(name: str, budget: Budget) -> None:
    for version in versions(name):
        check_both_ways(declared(name), version, budget.chance(f"{name} {version}"))


def check_both_ways(cls: type[WireMessage], version: int, chance: Random) -> None:
    ours = codec(cls, version)
    peers = [peer for peer in PEERS.values() if peer.knows(cls, version)]
    for message in messages(cls, version, examples(20, quick=4), chance):
        encoded = ours.encode(message)
        assert ours.decode(encoded) == message
        for peer in peers:
            assert peer.decode(cls, version, encoded) == message
            assert ours.decode(peer.encode(message, version)) == message
