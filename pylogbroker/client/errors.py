"""Errors of a client.

| error                          | state of the request                     | retriable |
|--------------------------------|------------------------------------------|-----------|
| NotConnected                   | never sent                               | yes       |
| ConnectionLost                 | outcome unknown                          | yes       |
| RequestTimedOut                | outcome unknown                          | yes       |
| NoBrokers                      | never sent                               | yes       |
| NeverReached                   | never sent                               | no        |
| Unavailable                    | to the tree: outcome unknown             | yes       |
| Closed                         | outcome unknown if sent                  | no        |
| KafkaError                     | rejected by the broker                   | by code   |
| all others                     | a retry will not help                    | no        |
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Unavailable
from pylogbroker.rpc.errors import (
    ClientError,
    Closed,
    ConnectionLost,
    NotAuthenticated,
    NotConnected,
    RequestTimedOut,
    SetUpFailed,
)
from pylogbroker.rpc.settings import Address

__all__ = [
    "COORDINATOR_MOVED",
    "COORDINATOR_NOT_READY",
    "ClientError",
    "Closed",
    "ConnectionLost",
    "NeverReached",
    "NoBrokers",
    "NotAuthenticated",
    "NotConnected",
    "OutOfRange",
    "PluginFailed",
    "QueueFull",
    "RecordTooLarge",
    "RequestTimedOut",
    "SetUpFailed",
    "TopicRecreated",
    "Truncated",
    "ZooKeeperUnreachable",
    "is_retriable",
]

COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which a client looks for the coordinator."""
COORDINATOR_NOT_READY: Final = COORDINATOR_MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class NoBrokers(ClientError):
    """No broker is reachable; the text has each reason.

    `accepted` has the first address that accepted a connection, if any, and why it is of no use.
    """

    def __init__(self, text: str, accepted: tuple[Address, SetUpFailed] | None = None) -> None:
        super().__init__(text)
        self.accepted = accepted


class NeverReached(ClientError):
    """No broker was ever reached, for `bootstrap.connect.max.ms`; the text has each reason."""


class ZooKeeperUnreachable(ClientError):
    """No connection to `zookeeper.connect` within the connection timeout; the text has the reason."""


class QueueFull(ClientError):
    """The producer's queue is full."""


class RecordTooLarge(ClientError):
    """A record exceeds the client's size limit."""


class PluginFailed(ClientError):
    """Plugin `plugin` raised the exception in `__cause__`."""

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin}: {why}")
        self.plugin = plugin
        self.why = why

    def at(self, topic: str, partition: int, offset: int) -> PluginFailed:
        failure = PluginFailed(self.plugin, f"{self.why}, at {topic}/{partition}@{offset}")
        failure.__cause__ = self.__cause__
        return failure


class OutOfRange(KafkaError):
    """The offset is outside the partition's log, which goes from `first` to before `end`."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, topic: str, partition: int, offset: int, first: int, end: int) -> None:
        super().__init__(f"{topic}/{partition} has no offset {offset}: it has those from {first} to {end}, exclusive")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.first = first
        self.end = end


class TopicRecreated(ClientError):
    """The topic was deleted and created again: offsets that were read or kept are those of the deleted one."""

    def __init__(self, topic: str, before: UUID, now: UUID) -> None:
        super().__init__(f"topic {topic} was deleted and created again: its id was {before}, and is now {now}")
        self.topic = topic
        self.before = before
        self.now = now


class Truncated(ClientError):
    """Messages already read were truncated: a new leader's log ended at `safe`."""

    def __init__(self, topic: str, partition: int, offset: int, safe: int) -> None:
        super().__init__(
            f"{topic}/{partition} was read up to offset {offset}, but a new leader's log ended at {safe}:"
            f" later messages are new; to read them, seek {safe}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.safe = safe


def is_retriable(error: BaseException) -> bool:
    if isinstance(error, KafkaError):
        return error.code.retriable
    return isinstance(error, ConnectionLost | RequestTimedOut | NoBrokers | Unavailable)
