"""Interfaces that the driver of a controller provides: the tree, channels to brokers, settings."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from pylogbroker.controller.requests import BrokerRequest
from pylogbroker.interfaces import CoordinationError, Operation
from pylogbroker.metadata import zk_schema
from pylogbroker.metadata.image import BrokerRegistration, PartitionKey
from pylogbroker.metadata.inter_broker_protocol import NEWEST_PROTOCOL, InterBrokerProtocol
from pylogbroker.metadata.zk_image import TreeReader


class ControllerTree(TreeReader, Protocol):
    """Reads and commits of `ITree`, over one session.

    Reads see all earlier writes, also one whose outcome is unknown if it was carried out. Reads raise Unavailable only
    when the session has ended or cannot go on: the controller then resigns.
    """

    async def commit_each(self, transactions: Sequence[Sequence[Operation]], /) -> Sequence[CoordinationError | None]:
        """Apply transactions one after the other; return the error of each failed one.

        A failed transaction does not keep the next ones from being applied. `Unavailable` says that the outcome is
        unknown. ZooKeeper's client sends them without waiting for answers between.
        """


class RequestQueues(Protocol):
    """A queue of requests for each broker, with one request in flight.

    A request is repeated until it is answered or the broker's channel is closed. The driver passes each answer to
    `ClusterController.on_answer`.
    """

    def open(self, broker: BrokerRegistration, /) -> None:
        """Start a channel to a live broker, or to a new registration of it. Requests of an open one are dropped."""

    def close(self, broker_id: int, /) -> None:
        """Drop the requests for a dead broker."""

    def send(self, broker_id: int, request: BrokerRequest, /) -> None: ...


def _never(topic: str) -> bool:
    return False


def _ignore(partition: PartitionKey, leader: int) -> None:
    pass


@attrs.frozen
class ControllerSettings:
    protocol: InterBrokerProtocol = NEWEST_PROTOCOL
    """inter.broker.protocol.version"""
    deletes_topics: bool = True
    """delete.topic.enable"""
    leader_imbalance_percentage: int = 10
    """leader.imbalance.per.broker.percentage"""
    allows_unclean_election: Callable[[str], bool] = _never
    """unclean.leader.election.enable of a topic."""
    keeps_one_replica: Callable[[str], bool] = _never
    """A topic is of format 0.7, whose positions in a log other replicas do not share."""
    unclean_election_held: Callable[[PartitionKey, int], object] = _ignore
    """Takes note of a partition and its new leader, which was not in sync."""
    is_archived: Callable[[str], bool] = _never
    """remote.storage.enable of a topic."""
    new_topic_id: Callable[[], uuid.UUID] = zk_schema.new_id
