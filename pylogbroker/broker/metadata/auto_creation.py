"""Creates missing topics that Metadata requests name (`auto.create.topics.enable`).

As in Kafka, the answer is UNKNOWN_TOPIC_OR_PARTITION, and the topic is created in the background. So a client that
checks its deletion of a topic sees that the topic is gone.

Topics are created one after the other. Beyond `WAITING_MAX` waiting ones nothing is started; the client tries again.
"""

from __future__ import annotations

from collections import deque

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.services import Controller, Metadata
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS, check_name

WAITING_MAX = 1000
log = Logger()


@attrs.define(eq=False, repr=False)
class AutoCreation:
    _config: BrokerConfig
    _metadata: Metadata
    _controller: Controller
    _runtime: Runtime
    _waiting: deque[str] = attrs.field(factory=deque, init=False)
    _names: set[str] = attrs.field(factory=set, init=False)  # of `_waiting`, and the one being created
    _stopped: bool = attrs.field(default=False, init=False)

    def find(self, name: str, allowance: PartitionAllowance | None) -> TopicImage:
        """Return the topic, or raise KafkaError; its creation starts if `allowance` covers it."""
        topic = self._metadata.topics.get(name)
        if topic is not None:
            return topic
        check_name(name)
        may_create = name not in INTERNAL_TOPICS and self._config.auto_create_topics_enable
        if may_create and allowance is not None and allowance.left >= self._config.num_partitions:
            self._request(name, allowance)
        raise KafkaError(f"there is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _request(self, name: str, allowance: PartitionAllowance) -> None:
        if name in self._names or self._stopped:
            return
        if len(self._names) >= WAITING_MAX:
            if self._runtime.may_log("too many topics wait for their creation"):
                log.warn(
                    "{count} topics already wait for their automatic creation: {topic} and others are created when "
                    "clients ask for them again",
                    count=len(self._names),
                    topic=name,
                )
            return
        self._controller.plans.plan_topic(NewTopic(name), allowance)
        self._waiting.append(name)
        self._names.add(name)
        if len(self._names) == 1:
            self._runtime.clock.callLater(0, self._start)

    def stop(self) -> None:
        """Forget waiting topics; a creation under way goes on."""
        self._stopped = True
        self._names.difference_update(self._waiting)
        self._waiting.clear()

    def _start(self) -> None:
        run_in_background(log, self._create_all(), "automatic creation failed")

    async def _create_all(self) -> None:
        while self._waiting:
            name = self._waiting.popleft()
            try:
                await self._controller.create_topic(NewTopic(name))
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS and self._runtime.may_log(
                    "automatic creation of topics"
                ):
                    log.warn("topic {topic} could not be created automatically: {why}", topic=name, why=error)
            finally:
                self._names.discard(name)
