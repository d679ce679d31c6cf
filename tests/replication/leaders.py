"""Leader replica with a log in a list, for transcripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import BrokerRegistration, PartitionState
from pylogbroker.replication.actions import Actions
from pylogbroker.replication.follower_fetch import FollowerFetch
from pylogbroker.replication.leader import FetchOutcome, LeaderReplica
from pylogbroker.replication.settings import ReplicationSettings
from tests.replication.model_log import ModelLog

EPOCH = 5
LAG_MS = 1_000


def live(*brokers: int) -> dict[int, BrokerRegistration]:
    return {broker: BrokerRegistration(broker, 10 * broker) for broker in brokers}


def log_of(*epochs: int, flushes: bool = False) -> ModelLog:
    log = ModelLog(flushes)
    log.append([(epoch, value) for value, epoch in enumerate(epochs)])
    log.sync()
    return log


class Leader:
    """Broker 1 leads since 0 ms; replicas are 1, 2 and 3."""

    def __init__(
        self,
        log: ModelLog,
        isr: tuple[int, ...] = (1, 2, 3),
        high_watermark: int = 0,
        min_insync: int = 1,
        replicas: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        settings = ReplicationSettings(min_insync, LAG_MS)
        state = PartitionState(1, replicas, isr, EPOCH, 20)
        self.log = log
        self.replica = LeaderReplica(1, log, state, live(*replicas), settings, high_watermark, 0)
        self.begun = self.replica.begin(0)
        log.assign_epoch(EPOCH)

    def fetch(
        self, broker: int, offset: int, last_epoch: int = -1, now_ms: int = 0, start: int = 0, broker_epoch: int = -1
    ) -> FetchOutcome:
        return self.replica.fetch(FollowerFetch(broker, EPOCH, offset, last_epoch, start, broker_epoch), now_ms)

    def append(self, count: int = 1, now_ms: int = 0) -> Actions:
        self.log.append([(EPOCH, 0)] * count)
        return self.replica.log_advanced(now_ms)


def code_of(call: Callable[..., object], *arguments: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments)
    return caught.value.code
