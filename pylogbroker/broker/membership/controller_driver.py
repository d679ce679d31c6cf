"""Elections of this broker as the cluster's controller. Source: KafkaController.elect, KafkaController.maybeResign.

| state   | event                                    | next    | what happens                                       |
|---------|------------------------------------------|---------|----------------------------------------------------|
| stopped | `start`                                  | standby |                                                    |
| standby | /controller is absent                    | active  | if this broker is the first to create it           |
| standby | /controller exists                       | standby | its removal is watched                             |
| active  | another controller, failed takeover, a   | standby | the term ends; /controller is removed if it is of  |
|         | write whose outcome stays unknown        |         | that term, so that some broker is elected again    |
| any     | the session expires, `stop`              | stopped | the term ends at once; requests get NOT_CONTROLLER |

A lost connection ends no term: brokers obey until the session has expired, and writes wait.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.membership.active_controller import ActiveController, OpenChannels, not_controller
from pylogbroker.broker.membership.controller_tree import SessionTree
from pylogbroker.controller.controller import ClusterController
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.controller.term import ControllerTerm, elect
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Check, Delete, ITree, SessionEvent, SessionState, Unavailable
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.image import ClusterImage, PartitionKey, PartitionState
from pylogbroker.metadata.zk_image import TimeSlices
from pylogbroker.metadata.zk_schema import ProducerIdBlock

RETRY_SECONDS: Final = 1.0
_NO_IDS: Final[Mapping[str, uuid.UUID]] = {}
T = TypeVar("T")
log = Logger()


@attrs.define(eq=False, repr=False)
class ControllerDriver:
    """Implements `ClusterControl`. `settings` are read at each election; without `balance_seconds` nothing balances."""

    # Stages without types: sessions and terms come and go for as long as the broker lives

    _broker_id: int
    _tree: ITree
    _clock: IReactorTime
    _slices: TimeSlices
    _settings: Callable[[], ControllerSettings]
    _open_channels: OpenChannels
    _balance_seconds: float | None = None
    """leader.imbalance.check.interval.seconds, None without auto.leader.rebalance.enable"""
    _session: SessionTree | None = attrs.field(default=None, init=False)
    _active: ActiveController | None = attrs.field(default=None, init=False)
    _standby: Deferred[None] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._tree.watch_session(self._session_changed)

    def start(self) -> None:
        """Stand for election; call this again after each new session, when the broker has registered."""
        if self._session is None or not self._session.is_live:
            self.stop()
            self._session = SessionTree.of(self._tree, self._clock)
            run_in_background(log, self._run(self._session), "this broker stands for no election in this session")

    def stop(self) -> None:
        """End the term at once. /controller stays until the session ends."""
        if self._session is not None:
            self._session.end()
            self._session = None
        if self._active is not None:
            self._active.end()
        self._wake()

    @property
    def is_elected(self) -> bool:
        """This broker is the controller; it may still take over, and requests wait until it has."""
        return self._active is not None and not self._active.has_ended

    @property
    def is_active(self) -> bool:
        """This broker is the controller, and has taken over."""
        return self._active is not None and self._active.is_serving

    @property
    def image(self) -> ClusterImage:
        active = self._require_active()
        if not active.is_serving:
            raise not_controller()
        return active.controller.image

    def allow_unclean_elections(self) -> None:
        """Elect leaders where only unclean elections can: unclean.leader.election.enable has been set."""
        if self._active is not None:
            self._active.enqueue(self._active.controller.elect_leaderless)

    # requests of handlers

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        changes: Mapping[PartitionKey, WantedIsr],
        topic_ids: Mapping[str, uuid.UUID] = _NO_IDS,
    ) -> dict[PartitionKey, PartitionState | ErrorCode]:
        """Change ISRs; `topic_ids` guard against a topic that was created again since the leader asked."""

        async def alter(controller: ClusterController) -> dict[PartitionKey, PartitionState | ErrorCode]:
            topics = controller.image.topics
            replaced = [
                name for name, topic_id in topic_ids.items() if name not in topics or topics[name].id != topic_id
            ]
            present = {key: change for key, change in changes.items() if key[0] not in replaced}
            altered = await controller.alter_partitions(broker_id, broker_epoch, present)
            return {**dict.fromkeys(changes, ErrorCode.UNKNOWN_TOPIC_ID), **altered}

        return await self._ask(alter)

    async def shut_down_broker(self, broker_id: int, broker_epoch: int) -> list[PartitionKey]:
        return await self._ask(lambda controller: controller.shut_down_broker(broker_id, broker_epoch))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        return await self._ask(lambda controller: controller.allocate_producer_ids(broker_id, broker_epoch))

    async def elect_leaders(
        self, kind: ElectionKind, keys: Iterable[PartitionKey] | None
    ) -> dict[PartitionKey, ErrorCode]:
        return await self._ask(lambda controller: controller.elect_leaders(kind, keys))

    async def alter_reassignments(
        self, targets: Mapping[PartitionKey, Sequence[int] | None], *, keeps_factor: bool = False
    ) -> dict[PartitionKey, KafkaError | None]:
        return await self._ask(lambda controller: controller.alter_reassignments(targets, keeps_factor=keeps_factor))

    async def list_reassignments(self, keys: Iterable[PartitionKey] | None) -> dict[PartitionKey, PartitionState]:
        return await self._ask(lambda controller: controller.list_reassignments(keys))

    def _require_active(self) -> ActiveController:
        if self._active is None:
            raise not_controller()
        return self._active

    async def _ask(self, call: Callable[[ClusterController], Awaitable[T]]) -> T:
        return await self._require_active().ask(call)

    # elections

    def _session_changed(self, event: SessionEvent) -> None:
        if event.state is SessionState.EXPIRED:
            self.stop()

    async def _run(self, session: SessionTree) -> None:
        while session.is_live:
            try:
                await self._stand(session)
            except Exception:
                if session.is_live:
                    log.failure("the election or the takeover of the controller failed: trying again")
                    await session.pause(RETRY_SECONDS)

    async def _stand(self, session: SessionTree) -> None:
        """Wait while there is a controller; else be it, if no other broker is faster."""
        changed: Deferred[None] = Deferred()
        if await session.exists(zk_paths.CONTROLLER, lambda _: self._wake(changed)) is not None:
            self._standby = changed
            await changed
            return
        term = await elect(session, self._broker_id, int(self._clock.seconds() * 1000))
        if term is None:  # another broker was faster, or the tree rejects the write
            await session.pause(RETRY_SECONDS)
        else:
            await self._serve(session, term)

    def _wake(self, changed: Deferred[None] | None = None) -> None:
        """End the wait for a change of /controller; by default the present one."""
        waiting = changed or self._standby
        if waiting is not None and not waiting.called:
            waiting.callback(None)

    async def _serve(self, session: SessionTree, term: ControllerTerm) -> None:
        settings = self._settings()
        active = ActiveController.of(
            term, session, self._open_channels, settings, self._slices, self._clock, self._balance_seconds
        )
        self._active = active
        log.info("broker {id} was elected controller, epoch {epoch}", id=self._broker_id, epoch=term.epoch)
        try:
            await active.run()
        except Exception:
            await self._end_term(session, term, active)
            raise
        await self._end_term(session, term, active)  # no `finally`: a collected coroutine must not await

    async def _end_term(self, session: SessionTree, term: ControllerTerm, active: ActiveController) -> None:
        active.end()
        if self._active is active:
            self._active = None
        log.info(
            "broker {id} is no longer the controller of epoch {epoch}: {why}",
            id=self._broker_id,
            epoch=term.epoch,
            why=active.why_ended,
        )
        await self._remove_node(session, term)

    async def _remove_node(self, session: SessionTree, term: ControllerTerm) -> None:
        """Remove the term's node, if the session and the node still exist."""
        error: object = None
        while session.is_live and (error is None or isinstance(error, Unavailable)):
            [node] = await session.get_many([zk_paths.CONTROLLER])
            if node is None or node.data != term.node:
                return
            fence = Check(zk_paths.CONTROLLER_EPOCH, term.epoch_version)
            [error] = await session.commit_each([[fence, Delete(zk_paths.CONTROLLER)]])
