"""The share consumer without Deferreds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from pylogbroker.client.share.acknowledgements import AcknowledgeType
from pylogbroker.client.share.acquired import ShareMessage
from pylogbroker.client.share.consumer import ShareConsumer as AsyncShareConsumer
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient
from pylogbroker.interfaces import TopicPartition

_POLL_SECONDS_MAX: Final = 1.0
_GRACE_SECONDS: Final = 5.0


class ShareConsumer(BlockingClient[AsyncShareConsumer]):
    """Member of a share group; takes the arguments of `pylogbroker.client.ShareConsumer`.

    Iteration returns one message after another, and accepts each when the next one is asked for.
    """

    def __init__(
        self, bootstrap: str | Iterable[str] | None = None, *, group: str, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncShareConsumer, bootstrap, group=group, **options), timeout, options)

    def subscribe(self, topics: Iterable[str], timeout: float | None = None) -> None:
        """Subscribe to these topics instead of former ones; the first call waits until the group accepts the member."""
        self._call("subscribe", partial(self._client.subscribe, topics), timeout)

    def poll(self, count: int | None = None, timeout: float | None = None) -> list[ShareMessage]:
        """Return at most `count` messages once there are any; none after `timeout` seconds.

        Messages of the poll before are accepted unless they are acknowledged. Ctrl-C ends the wait without a loss.
        """
        seconds = self._seconds(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _POLL_SECONDS_MAX if deadline is None else min(_POLL_SECONDS_MAX, deadline - time.monotonic())
            poll = partial(self._client.poll, count, max(left, 0.0))
            messages = self._call("poll", poll, max(left, 0.0) + _GRACE_SECONDS)
            if messages or (deadline is not None and time.monotonic() >= deadline):
                return messages

    def __iter__(self) -> Iterator[ShareMessage]:
        while True:
            yield from self.poll(1)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions whose records this member may get now; others may get them, too."""
        return self._client.assignment

    @property
    def acknowledgement_failures(self) -> int:
        """Partitions whose acknowledgements the broker rejected; their messages may be delivered again."""
        return self._client.acknowledgement_failures

    def acknowledge(self, message: ShareMessage, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say how a message was processed; it is sent with the next poll or `commit`."""

        async def on_the_reactors_thread() -> None:
            self._client.acknowledge(message, kind)

        self._call("acknowledge", on_the_reactors_thread, None)

    def commit(self, timeout: float | None = None) -> None:
        """Send acknowledgements, and wait for the answers; raise AcknowledgementsFailed."""
        self._call("commit", self._client.commit, timeout)

    def _trouble(self) -> str:
        return self._client.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.close()
