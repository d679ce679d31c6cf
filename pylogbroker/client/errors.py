"""What can go wrong for a client, beside the errors that a broker answers with.

A broker's error answer is raised as `KafkaError` with its code; what happens on this side of the connection is a
`ClientError`. `is_retriable` says of either whether to try the same again may help.

| error                          | what is known of the request             | retriable |
|--------------------------------|------------------------------------------|-----------|
| NotConnected                   | it was never sent                        | yes       |
| ConnectionLost                 | it may have been carried out, or not     | yes       |
| RequestTimedOut                | the same                                 | yes       |
| NoBrokers                      | no broker could be reached: never sent   | yes       |
| Unavailable                    | the tree: it may have been done, or not  | yes       |
| KafkaError                     | the broker refused it                    | its code's |
| everything else                | to try again will not help               | no        |
"""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import Unavailable

_CODES = {code.value: code for code in ErrorCode}


class ClientError(PylogbrokerError):
    """The base of what goes wrong in a client."""


class ConnectionLost(ClientError):
    """The connection ended before the answer came: what became of the request is not known."""


class NotConnected(ConnectionLost):
    """There was no connection: the request was not sent."""


class RequestTimedOut(ClientError):
    """The answer did not come in time: what became of the request is not known."""


class NoBrokers(ClientError):
    """None of the brokers could be reached; the text says what each of them did."""


class Closed(ClientError):
    """The client has been closed."""


class QueueFull(ClientError):
    """A record was not taken: the producer's queue is full."""


class RecordTooLarge(ClientError):
    """A record is larger than the client may send, or than it was allowed to fetch."""


class PluginFailed(ClientError):
    """A plugin raised an exception; `plugin` is its name, and the exception is the cause."""

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin}: {why}")
        self.plugin = plugin
        self.why = why

    def at(self, topic: str, partition: int, offset: int) -> PluginFailed:
        """The same, of a message."""
        failure = PluginFailed(self.plugin, f"{self.why}, at {topic}/{partition}@{offset}")
        failure.__cause__ = self.__cause__
        return failure


class OutOfRange(KafkaError):
    """An offset that the partition does not have (any more, or yet): it has those from `first` to before `end`."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, topic: str, partition: int, offset: int, first: int, end: int) -> None:
        super().__init__(f"{topic}/{partition} has no offset {offset}: it has those from {first} to {end}, exclusive")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.first = first
        self.end = end


class Truncated(ClientError):
    """Messages were read that are not in the log any more: a new leader did not have them. It is cut at `safe`."""

    def __init__(self, topic: str, partition: int, offset: int, safe: int) -> None:
        super().__init__(
            f"{topic}/{partition} was read up to offset {offset}, but a new leader has only what is before {safe}:"
            f" what follows there is new, so seek {safe}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.safe = safe


def is_retriable(error: BaseException) -> bool:
    """Whether the same may succeed later."""
    if isinstance(error, KafkaError):
        return error.code.retriable
    return isinstance(error, ConnectionLost | RequestTimedOut | NoBrokers | Unavailable)


def error_of(code: int, detail: str | None = None) -> KafkaError:
    """The exception for an error code of an answer; codes that are newer than this table are unknown errors."""
    known = _CODES.get(code)
    if known is None:
        return KafkaError(f"error code {code}: {detail or 'of a newer broker'}")
    return KafkaError(detail or "", known)


def raise_for(code: int, detail: str | None = None) -> None:
    """Raise what an answer's error code stands for, unless it is 0."""
    if code:
        raise error_of(code, detail)
