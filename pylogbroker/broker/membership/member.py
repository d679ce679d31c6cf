"""Registration of this broker in the cluster, over sessions with ZooKeeper.

    state         event                        next state    what happens
    ------------  ---------------------------  ------------  ----------------------------------------------------
    (new)         `register`                   REGISTERED    /brokers/ids/<id> is created; the broker epoch is taken
    REGISTERED    the session expires          EXPIRED       leaderships stay until the controller moves them
    EXPIRED       a new session begins         REGISTERED    registered again, with another broker epoch
    EXPIRED       the new session expires      EXPIRED       the attempt to register ends, another one begins
    any           `close`                      CLOSED        an attempt to register ends

A broker whose id is still registered, by its life before or by another broker, waits for that session's timeout. After
a crash it also waits until it has left the ISRs (see `departure`): it may have lost its last records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.membership.departure import wait_until_departed
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import CoordinationError, ITree, SessionEvent, SessionState
from pylogbroker.metadata import registration, zk_paths
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.tree.deletion import wait_until_deleted

log = Logger()
_BACKOFF: Final = Backoff.fixed(1.0)
_UNKNOWN_EPOCH: Final = -1
_TIMEOUTS_WAITED: Final = 2.0  # of sessions


@attrs.define(eq=False, repr=False)
class ClusterMember:
    """`on_departed` runs once the broker has left the ISRs after a crash, `on_new_session` before a new registration.

    `on_registered` gets each new broker epoch.
    """

    _broker_id: int
    _tree: ITree
    _runtime: Runtime
    _session_seconds: float
    on_departed: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    on_registered: list[Callable[[int], None]] = attrs.field(factory=list, init=False)
    on_new_session: list[Callable[[], object]] = attrs.field(factory=list, init=False)
    epoch: int = attrs.field(default=_UNKNOWN_EPOCH, init=False)
    _suspect: Collection[PartitionKey] = attrs.field(default=(), init=False)
    _node: BrokerNode | None = attrs.field(default=None, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _attempt: Deferred[None] | None = attrs.field(default=None, init=False)

    @property
    def is_registered(self) -> bool:
        """The broker has registered, in this session or an earlier one."""
        return self.epoch != _UNKNOWN_EPOCH

    async def register(self, node: BrokerNode, suspect: Collection[PartitionKey] = ()) -> None:
        """Register; raise StartupError if the id is another broker's, or ZooKeeper fails meanwhile.

        Before that, leave the ISRs of `suspect` partitions, whose last records may be lost.
        """
        self._node = node
        self._suspect = suspect
        self._tree.watch_session(self._session_changed)
        self._attempt = ensureDeferred(self._register())
        try:
            await self._attempt
        except CoordinationError as error:
            raise StartupError(
                f"ZooKeeper was lost while broker {self._broker_id} registered ({error}): start the broker again"
            ) from error

    def close(self) -> None:
        self._is_closed = True
        self._end_attempt()

    def _end_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()

    async def _register(self) -> None:
        assert self._node is not None
        if self._suspect:
            await self._leave_isrs()
        now_ms = self._runtime.now_ms()
        self.epoch = await registration.register(self._tree, self._broker_id, self._node, now_ms, self._until_deleted)
        log.info("registered as broker {broker} with epoch {epoch}", broker=self._broker_id, epoch=self.epoch)
        for call in self.on_registered:
            call(self.epoch)

    async def _leave_isrs(self) -> None:
        path = zk_paths.broker(self._broker_id)
        former = await self._tree.exists(path)
        if former is not None and not await self._until_deleted(path):
            raise registration.registered_elsewhere(self._broker_id, former.owner)
        clock, suspect, self._suspect = self._runtime.clock, self._suspect, ()
        remaining = await wait_until_departed(self._tree, self._broker_id, suspect, clock, self._deadline())
        if remaining:
            log.warn(
                "after a crash, {topic}-{partition} and {others} more still count this broker as in sync: if it leads, "
                "its last records may be lost",
                topic=remaining[0][0],
                partition=remaining[0][1],
                others=len(remaining) - 1,
            )
        for call in self.on_departed:
            call()

    async def _until_deleted(self, path: str) -> bool:
        log.info("broker id {broker} is still registered: waiting for its session's end", broker=self._broker_id)
        return await wait_until_deleted(self._tree, path, self._runtime.clock, self._deadline())

    def _deadline(self) -> float:
        return self._runtime.clock.seconds() + self._session_seconds * _TIMEOUTS_WAITED

    def _session_changed(self, event: SessionEvent) -> None:
        if event.state is SessionState.EXPIRED and self.is_registered and not self._is_closed:
            log.warn("the session with ZooKeeper expired: the cluster considers this broker dead; it registers again")
            self._end_attempt()
            self._attempt = ensureDeferred(self._begin_session()).addErrback(_log_failure)

    async def _begin_session(self) -> None:
        await retrying(
            self._enter_session,
            Pauses(self._runtime.clock),
            _BACKOFF,
            retriable=lambda error: isinstance(error, CoordinationError | StartupError),
            failed=self._log_unregistered,
        )

    async def _enter_session(self) -> None:
        await self._tree.new_session()
        for call in self.on_new_session:
            result = call()
            if result is not None:
                await result  # type: ignore[misc]
        await self._register()

    def _log_unregistered(self, error: Exception) -> None:
        if self._runtime.may_log("registration"):
            log.error("the broker cannot register again; it tries on: {why}", why=error)


def _log_failure(failure: Failure) -> None:
    if not failure.check(CancelledError):
        log.failure("the broker could not register again", failure)
