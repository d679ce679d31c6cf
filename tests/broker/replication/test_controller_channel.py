"""Requests to a controller that moves, and whose release is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed

from pylogbroker.broker.replication.controller_channel import ControllerChannel
from pylogbroker.metadata.image import NO_CONTROLLER, BrokerListener, BrokerRegistration, ClusterImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.wire import Request, UnsupportedVersion
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.broker.membership.harness import error_of
from tests.broker.trees import now


@attrs.define(eq=False)
class Channel:
    broker_id: int
    client_id: str
    version_max: int
    is_closed: bool = False

    def request(self, request: Request, version: int) -> Deferred[Any]:
        if version > self.version_max:
            return fail(UnsupportedVersion("too new"))
        return succeed((self.broker_id, version))

    def close(self) -> None:
        self.is_closed = True


@attrs.define(eq=False)
class Channels:
    version_max: int = 9
    opened: list[Channel] = attrs.field(factory=list)

    def open(self, broker_id: int, client_id: str, versions: Mapping[int, int] | None = None) -> Channel:
        assert versions is None
        self.opened.append(Channel(broker_id, client_id, self.version_max))
        return self.opened[-1]


@attrs.define(eq=False)
class Asking:
    channels: Channels = attrs.field(factory=Channels)
    controller_id: int = 2
    port: int = 9092
    made: list[int] = attrs.field(factory=list)
    channel: ControllerChannel = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        channels: Any = self.channels
        self.channel = ControllerChannel(channels, self.image, "1")

    def image(self) -> ClusterImage:
        listener = BrokerListener("host", self.port, "PLAINTEXT")
        brokers = {id_: BrokerRegistration(id_, listeners={"PLAINTEXT": listener}) for id_ in (2, 5)}
        return ClusterImage(PersistentMap(brokers), self.controller_id)

    def make(self, version: int) -> Request:
        self.made.append(version)
        return AllocateProducerIdsRequest()

    def ask(self, *versions: int) -> Any:
        return now(self.channel.request(self.make, versions))


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_one_channel_goes_to_the_controller(asking: Asking) -> None:
    assert [asking.ask(3), asking.ask(3)] == [(2, 3), (2, 3)]
    [opened] = asking.channels.opened
    assert opened.client_id == "1"


def test_another_controller_gets_another_channel(asking: Asking) -> None:
    asking.ask(3)
    asking.controller_id = 5
    assert asking.ask(3) == (5, 3)
    assert [each.is_closed for each in asking.channels.opened] == [True, False]


def test_a_controller_that_is_back_at_another_address_gets_another_channel(asking: Asking) -> None:
    asking.ask(3)
    asking.port += 1
    assert [asking.ask(3), asking.ask(3)] == [(2, 3), (2, 3)]
    assert [each.is_closed for each in asking.channels.opened] == [True, False]


def test_the_newest_known_version_is_sent(asking: Asking) -> None:
    asking.channels.version_max = 1
    assert asking.ask(3, 2, 1, 0) == (2, 1)
    assert asking.made == [3, 2, 1]


def test_a_controller_that_knows_no_version(asking: Asking) -> None:
    asking.channels.version_max = -1
    error = error_of(asking.channel.request(asking.make, (1, 0)))
    assert isinstance(error, UnsupportedVersion)


def test_a_cluster_without_controller(asking: Asking) -> None:
    asking.controller_id = NO_CONTROLLER
    assert isinstance(error_of(asking.channel.request(asking.make, (0,))), NotConnected)


def test_a_closed_channel(asking: Asking) -> None:
    asking.ask(3)
    asking.channel.close()
    asking.channel.close()
    assert asking.channels.opened[0].is_closed
