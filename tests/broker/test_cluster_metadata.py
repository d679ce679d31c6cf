"""Publishing of deltas: what is done before and after requests see them."""

from __future__ import annotations

import uuid
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.metadata.delta import ControllerElected, Delta, TopicCreated
from pylogbroker.metadata.image import ClusterImage, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.zk_image import new_partition
from tests.broker.trees import now

DELTA = Delta.of(TopicCreated(TopicImage("t", uuid.UUID(int=1), PersistentMap({0: new_partition([1])}))))


class PublishTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.events: list[Any] = []
        self.metadata = ClusterMetadata(prepare=self.prepare)
        self.metadata.follow(self)

    async def prepare(self, delta: Delta, after: ClusterImage) -> None:
        self.events.append(("prepare", list(self.metadata.topics), list(after.topics)))

    async def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        self.events.append(("act", list(before.topics), list(after.topics)))
        self.assertIs(self.metadata.image, after)

    def test_replicas_are_made_before_requests_see_their_partitions(self) -> None:
        now(self.metadata.publish(DELTA))
        self.assertEqual(self.events, [("prepare", [], ["t"]), ("act", [], ["t"])])

    def test_concurrent_deltas_are_both_applied(self) -> None:
        prepared: Deferred[None] = Deferred()

        async def wait(delta: Delta, after: ClusterImage) -> None:
            if delta is DELTA:
                await prepared

        self.metadata.prepare = wait
        first = Deferred.fromCoroutine(self.metadata.publish(DELTA))
        second = Deferred.fromCoroutine(self.metadata.publish(Delta.of(ControllerElected(3))))
        self.assertEqual(self.events, [])
        prepared.callback(None)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual((list(self.metadata.topics), self.metadata.image.controller_id), (["t"], 3))

    def test_a_failed_preparation_is_logged_and_the_delta_is_published(self) -> None:
        async def fail(delta: Delta, after: ClusterImage) -> None:
            raise ZeroDivisionError

        self.metadata.prepare = fail
        now(self.metadata.publish(DELTA))
        self.assertEqual(self.events, [("act", [], ["t"])])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
