"""Waits of changes until this broker's image shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import Delta
from pylogbroker.metadata.image import NO_LEADER, ClusterImage

_WAIT_SECONDS: Final = 30.0


@attrs.define(eq=False, repr=False)
class ImageWaits:
    """Follows the metadata."""

    _metadata: ClusterMetadata
    _runtime: Runtime
    _waiting: dict[Deferred[None], Callable[[ClusterImage], bool]] = attrs.field(factory=dict, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def close(self) -> None:
        """Wait for nothing any more."""
        self._is_closed = True
        for waiting in tuple(self._waiting):
            waiting.cancel()

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for waiting, is_there in tuple(self._waiting.items()):
            if is_there(after):
                del self._waiting[waiting]
                waiting.callback(None)

    async def until(self, is_there: Callable[[ClusterImage], bool], late: str) -> None:
        """Wait until the image shows a change.

        Raise REQUEST_TIMED_OUT, with the text `late`, if that takes long, or the broker stops.
        """
        if is_there(self._metadata.image):
            return
        waiting: Deferred[None] = Deferred()
        self._waiting[waiting] = is_there
        waiting.addTimeout(_WAIT_SECONDS, self._runtime.clock)
        if self._is_closed:
            waiting.cancel()
        try:
            await waiting
        except (CancelledError, TimeoutError) as error:
            self._waiting.pop(waiting, None)
            raise KafkaError(late, ErrorCode.REQUEST_TIMED_OUT) from error


def has_leaders(image: ClusterImage, name: str, partitions: int) -> bool:
    """Return whether a topic has so many partitions, and all have leaders."""
    topic = image.topics.get(name)
    return (
        topic is not None
        and len(topic.partitions) >= partitions
        and all(state.leader != NO_LEADER for state in topic.partitions.values())
    )
