"""Brokers are ready once the metadata of each has all of them, and a controller."""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.settings import Address
from pylogbroker.tap.brokers.readiness import RETRY_SECONDS, MetadataWait
from pylogbroker.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

BOTH = (1, 2)
READY = (BOTH, 2)


@attrs.define
class Brokers:
    """Brokers 1 and 2, with the ids and the controller that their metadata has; None: not to be reached."""

    metadata: dict[str, tuple[tuple[int, ...], int] | None]
    registered: dict[int, BrokerNode] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    clock: Clock = attrs.field(factory=Clock)

    def register(self, broker_id: int, host: str) -> None:
        endpoints = ("OUTSIDE://other:1", f"INSIDE://{host}:9092")
        self.registered[broker_id] = BrokerNode(endpoints, dict.fromkeys(("OUTSIDE", "INSIDE"), "PLAINTEXT"))

    async def ask(self, address: Address) -> MetadataResponse:
        self.asked.append(address.host)
        answer = self.metadata[address.host]
        if answer is None:
            raise NotConnected(str(address))
        known, controller = answer
        return MetadataResponse(brokers=[MetadataResponseBroker(each) for each in known], controller_id=controller)

    def wait(self) -> Deferred[None]:
        return ensureDeferred(MetadataWait(self.clock, BOTH, lambda: self.registered, "INSIDE", self.ask).finish())


@pytest.mark.parametrize("missing", [((), -1), ((2,), 2), (BOTH, -1), None])
def test_each_broker_must_know_all_and_the_controller(missing: tuple[tuple[int, ...], int] | None) -> None:
    brokers = Brokers({"one": missing, "two": READY})
    brokers.register(1, "one")
    brokers.register(2, "two")
    waiting = brokers.wait()
    brokers.clock.advance(RETRY_SECONDS)
    assert not waiting.called
    brokers.metadata["one"] = READY
    brokers.clock.advance(RETRY_SECONDS)
    assert waiting.called
    assert brokers.asked == ["one", "two", "one", "one"]


def test_a_broker_may_end_and_come_back_elsewhere() -> None:
    brokers = Brokers({"one": READY, "two": None, "three": READY})
    brokers.register(1, "one")
    brokers.register(2, "two")
    waiting = brokers.wait()
    del brokers.registered[2]
    brokers.clock.advance(RETRY_SECONDS)
    brokers.register(2, "three")
    brokers.clock.advance(RETRY_SECONDS)
    assert waiting.called
    assert brokers.asked == ["one", "two", "three"]
