"""State of this broker as a member of its cluster, and of the controllers, for pages and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout

from pylogbroker.broker.kraft.lifecycle import BrokerLifecycle
from pylogbroker.broker.kraft.published_offset import PublishedOffset
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.kraft.quorum_state import described_quorum
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.kraft.fold import RegisteredBroker
from pylogbroker.kraft.metadata_log import MetadataLog
from pylogbroker.metadata.image import BrokerRegistration
from pylogbroker.rpc.errors import RequestTimedOut
from pylogbroker.wire.messages.describe_quorum import DescribeQuorumResponse

_FRESH_SECONDS: Final = 1.0
"""Answers of the controller are shared so long: pages ask every second."""

_SECONDS_MAX: Final = 3.0
_PURPOSE: Final = "status"
"""A connection of its own: a timeout ends it."""


@attrs.frozen
class _Answer:
    time: float
    content: DescribeQuorumResponse | PylogbrokerError


@attrs.define(eq=False, repr=False)
class KraftStatus:
    _log: MetadataLog
    _published: PublishedOffset
    _lifecycle: Callable[[], BrokerLifecycle | None]
    _levels: Callable[[], Mapping[str, int]]
    _registered: Callable[[], Mapping[int, RegisteredBroker]]
    _quorum: Quorum
    _runtime: Runtime
    _answers: list[_Answer] = attrs.field(factory=list, init=False)
    """The last one."""

    @property
    def state(self) -> str:
        """Return starting, or a state of `KraftRegistration`."""
        lifecycle = self._lifecycle()
        return "starting" if lifecycle is None else lifecycle.state.value

    @property
    def broker_epoch(self) -> int:
        """Return -1 before the registration."""
        lifecycle = self._lifecycle()
        return -1 if lifecycle is None else lifecycle.epoch

    @property
    def published(self) -> PublishedOffset:
        """Progress of this broker in the metadata log."""
        return self._published

    @property
    def leader_id(self) -> int:
        """Return the active controller, -1 while none is known."""
        return self._log.leader_id

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    @property
    def high_watermark(self) -> int:
        """Return that of the metadata log, as of the last fetch."""
        return self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        """Return the offset up to which this broker has fetched."""
        return self._log.end_offset

    @property
    def levels(self) -> Mapping[str, int]:
        """Levels of the cluster's features by name."""
        return self._levels()

    def fenced_brokers(self) -> Iterable[BrokerRegistration]:
        """Yield brokers that are registered and fenced: most of them do not run."""
        return (broker.registration for broker in self._registered().values() if broker.is_fenced)

    async def described(self) -> DescribeQuorumResponse:
        """Return the active controller's answer about the quorum, which may be a second old.

        Raise ClientError or KafkaError without one.
        """
        now = self._runtime.clock.seconds()
        for answer in self._answers:
            if now - answer.time < _FRESH_SECONDS:
                return _content(answer)
        content: DescribeQuorumResponse | PylogbrokerError
        try:
            content = await self._asked()
        except PylogbrokerError as error:
            content = error
        self._answers = [_Answer(now, content)]
        return _content(self._answers[0])

    async def _asked(self) -> DescribeQuorumResponse:
        """Return the answer to a new request; raise RequestTimedOut also while the connection is not set up."""
        answer = Deferred.fromCoroutine(described_quorum(self._quorum, _PURPOSE, _SECONDS_MAX))
        answer.addTimeout(_SECONDS_MAX, self._runtime.clock)
        try:
            return await answer
        except DeferredTimeout:
            raise RequestTimedOut(f"no connection within {_SECONDS_MAX:.0f} s") from None


def _content(answer: _Answer) -> DescribeQuorumResponse:
    if isinstance(answer.content, PylogbrokerError):
        raise KafkaError(f"no controller answers: {answer.content}", ErrorCode.REQUEST_TIMED_OUT)
    return answer.content
