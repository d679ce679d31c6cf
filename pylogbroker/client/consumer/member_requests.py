"""Requests of a group's member to its coordinator, and what their outcomes are to its state machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import attrs
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import Actions
from pylogbroker.client.consumer.member_tasks import MemberTasks
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import Closed, is_retriable
from pylogbroker.errors import ErrorCode, KafkaError

log = Logger()


class RequestingMachine(Protocol):
    """State machine of a member."""

    revision: int
    """Changes when outcomes of earlier requests no longer count."""

    def coordinator_found(self, now: int) -> Actions: ...

    def request_rejected(self, code: ErrorCode, now: int, error: Exception | None = None) -> Actions: ...

    def disconnected(self, now: int) -> Actions: ...

    def failed(self, error: Exception) -> Actions: ...


@attrs.define(eq=False, repr=False)
class MemberRequests:
    _group: str
    _cluster: Cluster
    _tasks: MemberTasks
    _machine: RequestingMachine
    _perform: Callable[[Actions], None]
    node: int = -1
    """Broker of the coordinator."""

    def find_coordinator(self) -> None:
        self.start(self._find())

    def start(self, request: Awaitable[Callable[[], Actions]]) -> None:
        """Perform the actions of the request's outcome, unless it no longer counts by then."""
        self._tasks.spawn(self._ask(request))

    async def _ask(self, request: Awaitable[Callable[[], Actions]]) -> None:
        revision = self._machine.revision
        try:
            outcome = await request
        except (CancelledError, Closed):
            return
        except Exception as error:
            outcome = partial(self._after, error)
        if self._machine.revision == revision:
            self._perform(outcome())

    async def _find(self) -> Callable[[], Actions]:
        self._cluster.forget_coordinator(self._group, CoordinatorType.GROUP)
        self.node = await self._cluster.coordinator(self._group, CoordinatorType.GROUP)
        return lambda: self._machine.coordinator_found(self._tasks.now_ms())

    def _after(self, error: Exception) -> Actions:
        if isinstance(error, KafkaError):
            if error.code is ErrorCode.UNRELEASED_INSTANCE_ID:
                log.warn("{group} waits for a former member: {error}", group=self._group, error=error)
            return self._machine.request_rejected(error.code, self._tasks.now_ms(), error)
        if is_retriable(error):
            log.debug("a request to the coordinator of {group} failed: {error}", group=self._group, error=error)
            return self._machine.disconnected(self._tasks.now_ms())
        return self._machine.failed(error)
