"""Guards around plugins: functions that a client can call safely.

Each validates the plugin's result. An exception becomes PluginFailed, which fails only the record or batch concerned.
KeyboardInterrupt is not caught: it does not come from the plugin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, NoReturn

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.plugin_lookup import (
    DECODER,
    PARTITIONER,
    ResolvedPlugin,
    Settings,
    given_as_arguments,
    resolve_plugin,
)
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import (
    Event,
    IAssignor,
    IDecoder,
    IEncoder,
    IEventHandler,
    IForwardingEventHandler,
    IPartitioner,
    IStickyPartitioner,
    Subscription,
    TopicPartition,
)

Encode = Callable[[Any], bytes | None]
Decode = Callable[[bytes | None], Any]
Choose = Callable[[bytes | None, int], int]
Handle = Callable[[Sequence[Event]], Deferred[None]]
log = Logger()


def guarded_encoder(plugged: ResolvedPlugin[IEncoder]) -> Encode:
    to_message = plugged.plugin.to_message

    def encode(data: Any) -> bytes | None:
        try:
            message = to_message(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise plugged.failed(error) from error
        if message is None or type(message) is bytes:
            return message
        raise plugged.failed(TypeError(f"it returned {type(message).__name__}, not bytes"))

    return encode


def guarded_decoder(plugged: ResolvedPlugin[IDecoder]) -> Decode:
    from_message = plugged.plugin.from_message

    def decode(data: bytes | None) -> Any:
        try:
            return from_message(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise plugged.failed(error) from error

    return decode


def decoder_of(settings: Values, name: str, choice: str | IDecoder | None) -> Decode | None:
    """Return the chosen or configured decoder; None for `bytes`, to save calls."""
    if choice is None:
        resolved = resolve_plugin(DECODER, name, settings.text(name), settings.by_name())
    else:
        with given_as_arguments([name]):
            resolved = resolve_plugin(DECODER, name, choice, settings.by_name())
    return None if resolved.name == "bytes" else guarded_decoder(resolved)


@attrs.frozen
class TopicPartitioner:
    """Partitioner of one topic; `batch_full` is None without the plugin's support."""

    partition: Choose
    batch_full: Callable[[], None] | None


class Partitioners:
    """Makes a new partitioner for each topic if named or from a factory."""

    def __init__(self, setting: str, choice: object, settings: Settings) -> None:
        self._resolve = partial(resolve_plugin, PARTITIONER, setting, choice, settings)
        self._example = self._resolve()
        self._is_used = False

    def of(self, topic: str) -> TopicPartitioner:
        """Return a partitioner; if invalid, one that fails each record."""
        try:
            plugged = self._resolve() if self._is_used else self._example
        except ConfigError as error:
            return TopicPartitioner(_failing_partitioner(self._example, error), None)
        self._is_used = True
        is_sticky = IStickyPartitioner.providedBy(plugged.plugin)
        return TopicPartitioner(guarded_partitioner(plugged), _batch_full(plugged, topic) if is_sticky else None)


def _failing_partitioner(plugged: ResolvedPlugin[Any], error: ConfigError) -> Choose:
    def choose(key: bytes | None, num_partitions: int) -> int:
        raise plugged.failed(error)

    return choose


def guarded_partitioner(plugged: ResolvedPlugin[IPartitioner]) -> Choose:
    partition = plugged.plugin.partition

    def choose(key: bytes | None, num_partitions: int) -> int:
        try:
            chosen = index(partition(key, num_partitions))
            if 0 <= chosen < num_partitions:
                return chosen
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise plugged.failed(error) from error
        raise plugged.failed(ValueError(f"it chose partition {chosen} of {num_partitions}"))

    return choose


def _batch_full(plugged: ResolvedPlugin[Any], topic: str) -> Callable[[], None]:
    def batch_full() -> None:
        try:
            plugged.plugin.batch_full(topic)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log_failure(plugged, error)

    return batch_full


def guarded_handler(plugged: ResolvedPlugin[IEventHandler], built_in: IEventHandler) -> Handle:
    """Give a forwarding plugin the built-in handler."""
    plugin = plugged.plugin
    _offer_built_in(plugged, built_in)

    def handle(events: Sequence[Event]) -> Deferred[None]:
        try:
            return _as_deferred(plugin.handle(events)).addCallbacks(lambda _: None, failed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return fail(plugged.failed(error))

    def failed(failure: Failure) -> NoReturn:
        raise plugged.failed(failure.value)

    return handle


def _offer_built_in(plugged: ResolvedPlugin[Any], built_in: IEventHandler) -> None:
    if IForwardingEventHandler.providedBy(plugged.plugin):
        try:
            plugged.plugin.forward_to(built_in)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise plugged.failed(error) from error


def _as_deferred(result: Awaitable[Any] | None) -> Deferred[Any]:
    if result is None or isinstance(result, Deferred):
        return succeed(None) if result is None else result

    async def wait() -> Any:
        return await result

    return Deferred.fromCoroutine(wait())


def guarded_assignor(
    plugged: ResolvedPlugin[IAssignor],
) -> Callable[[Mapping[str, int], Mapping[str, Subscription]], dict[str, list[TopicPartition]]]:
    def assign(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> dict[str, list[TopicPartition]]:
        try:
            answer = plugged.plugin.assign(partitions, members)
            return _checked_assignment(answer, partitions, members)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise plugged.failed(error) from error

    return assign


def _checked_assignment(
    answer: Mapping[str, Sequence[TopicPartition]], partitions: Mapping[str, int], members: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    given: set[TopicPartition] = set()
    for member, shares in answer.items():
        topics = frozenset(members[member].topics) if member in members else frozenset()
        for topic, partition in shares:
            if topic not in topics or not 0 <= partition < partitions.get(topic, 0):
                raise ValueError(f"{topic}-{partition} cannot be assigned to {member}")
            if (topic, partition) in given:
                raise ValueError(f"{topic}-{partition} is assigned twice")
            given.add((topic, partition))
    return {member: list(answer.get(member, ())) for member in members}


def log_failure(plugged: ResolvedPlugin[Any], error: BaseException) -> None:
    log.failure("the {kind} {name} failed", Failure(error), kind=plugged.kind.title, name=plugged.name)
