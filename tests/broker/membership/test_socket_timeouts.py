"""Timeouts of requests between brokers: those with the controller have a setting of their own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.membership import controller_channels
from pylogbroker.broker.replication.channels import BrokerChannels
from pylogbroker.controller.requests import StopReplica
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.settings import ConnectionSettings
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.broker.members import opened_members

OTHER = BrokerRegistration(2, 9, {"PLAINTEXT": BrokerListener("host-2", 1, "PLAINTEXT")})
SETTINGS = {"controller.socket.timeout.ms": "4000", "replica.socket.timeout.ms": "7000"}


class SocketTimeoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.seconds: list[float] = []
        directory = self.enterContext(TemporaryDirectory())
        cluster = self.enterContext(opened_members([directory], SETTINGS))
        self.role: Any = cluster[1].broker.role
        self.role._metadata.image = attrs.evolve(self.role._metadata.image, controller_id=1)

    def fail_to_connect(self, reactor: object, address: object, settings: ConnectionSettings, *_: object) -> Any:
        self.seconds.append(settings.request_timeout)
        raise NotConnected("noted")

    def noting(self) -> AbstractContextManager[object]:
        """Note the timeouts of channels between brokers."""

        def fail_to_open(
            channels: Any, broker_id: int, client_id: str, versions: Mapping[int, int] | None = None
        ) -> Any:
            self.seconds.append(channels._request_seconds)
            raise NotConnected("noted")

        return patch.object(BrokerChannels, "open", fail_to_open)

    def test_of_the_controller_to_brokers(self) -> None:
        channels = self.role._open_controller_channels(lambda *_: None)
        with patch.object(controller_channels, "BrokerChannel", self.fail_to_connect):
            channels.open(OTHER)
            channels.send(OTHER.id, StopReplica(1, 2, 9, ()))
        channels.close_all()
        self.assertEqual(self.seconds, [4.0])

    def test_of_brokers_to_the_controller(self) -> None:
        with self.noting():
            asked = self.role._controller_channel.request(lambda version: AllocateProducerIdsRequest(), (0,))
            self.failureResultOf(Deferred.fromCoroutine(asked), NotConnected)
        self.assertEqual(self.seconds, [4.0])

    def test_of_followers(self) -> None:
        with self.noting(), self.assertRaises(NotConnected):
            self.role._fetch_channel(2, 0)
        self.assertEqual(self.seconds, [7.0])
