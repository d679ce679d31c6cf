"""The controller of a cluster in ZooKeeper mode, as a state machine. Source: Kafka's KafkaController.

| phase    | event                           | next     | what happens                                         |
|----------|---------------------------------|----------|------------------------------------------------------|
| ELECTED  | `take_over`                     | SERVING  | all of `failover`                                    |
| SERVING  | a watched node changed          | SERVING  | the node is read; the difference to the image counts |
| SERVING  | an answer of a broker           | SERVING  | offline replicas, deleted replicas                   |
| SERVING  | a request                       | SERVING  | writes; then requests to brokers; then the answer    |
| any      | a write meets another fence, a  | RESIGNED | nothing more is written or sent                      |
|          | read finds no session, `resign` |          |                                                      |
| RESIGNED | anything                        | RESIGNED | NOT_CONTROLLER                                       |

    term = await elect(tree, broker_id, now_ms)             # None: another broker is the controller
    controller = ClusterController.of(term, tree, channels, settings, slices)
    await controller.take_over()

The driver passes one event at a time and waits for its end. It watches `WATCHED_CHILDREN`, `WATCHED_NODES` and the
nodes of brokers and topics: first it sets the watch again, then it calls `on_node_changed`. A call without a change
does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

import attrs

from pylogbroker.controller import (
    broker_changes,
    controlled_shutdown,
    deletions,
    failover,
    isr_changes,
    leader_balance,
    producer_id_blocks,
    reassignment_phases,
    requested_elections,
    topic_changes,
)
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.controller.fenced_tree import ControllerResigned, FencedTree
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings, ControllerTree, RequestQueues
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.controller.requests import BrokerRequest, LeaderAndIsr, StopReplica
from pylogbroker.controller.term import ControllerTerm
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.image import ClusterImage, PartitionKey, PartitionState
from pylogbroker.metadata.zk_image import TimeSlices
from pylogbroker.metadata.zk_schema import ProducerIdBlock

WATCHED_CHILDREN: Final = (
    zk_paths.BROKER_IDS,
    zk_paths.TOPICS,
    zk_paths.DELETE_TOPICS,
    zk_paths.LOG_DIR_EVENTS,
    zk_paths.ISR_CHANGES,
)
WATCHED_NODES: Final = (zk_paths.CONTROLLER, zk_paths.PREFERRED_ELECTION, zk_paths.REASSIGN_PARTITIONS)


class ControllerPhase(Enum):
    ELECTED = auto()
    SERVING = auto()
    RESIGNED = auto()


@attrs.define(eq=False, repr=False)
class ClusterController:
    """One term. Requests raise KafkaError, NOT_CONTROLLER outside of SERVING."""

    _cluster: ControlledCluster
    _phase: ControllerPhase = ControllerPhase.ELECTED
    _is_busy: bool = False

    @classmethod
    def of(
        cls,
        term: ControllerTerm,
        tree: ControllerTree,
        channels: RequestQueues,
        settings: ControllerSettings,
        slices: TimeSlices,
    ) -> ClusterController:
        return cls(ControlledCluster(term, FencedTree(tree, term.epoch_version), channels, settings, slices))

    @property
    def phase(self) -> ControllerPhase:
        return self._phase

    @property
    def term(self) -> ControllerTerm:
        return self._cluster.term

    @property
    def image(self) -> ClusterImage:
        """The cluster without topics under deletion."""
        return self._cluster.image

    async def take_over(self) -> None:
        """Bring cluster and brokers into a consistent state, then serve.

        Raise KafkaError (NOT_CONTROLLER) if another controller came, BadNode for an unreadable node.
        """
        with self._event(ControllerPhase.ELECTED):
            await failover.take_over(self._cluster)
            if self._phase is ControllerPhase.ELECTED:
                self._phase = ControllerPhase.SERVING

    def resign(self) -> None:
        """End the term: the session has expired, or the broker stops."""
        self._phase = ControllerPhase.RESIGNED

    async def on_node_changed(self, path: str) -> None:
        """Act on a change of a watched node or its children; raise BadNode if one is unreadable."""
        if self._phase is not ControllerPhase.SERVING:
            return
        with self._event():
            match path:
                case zk_paths.CONTROLLER:
                    await self._check_term()
                case zk_paths.BROKER_IDS:
                    await broker_changes.read_changes(self._cluster)
                case zk_paths.TOPICS:
                    await topic_changes.read_names(self._cluster)
                case zk_paths.DELETE_TOPICS:
                    await topic_changes.read_names(self._cluster)
                    await deletions.read_marks(self._cluster)
                case zk_paths.LOG_DIR_EVENTS:
                    await broker_changes.read_log_dir_events(self._cluster)
                case zk_paths.ISR_CHANGES:
                    await topic_changes.read_isr_changes(self._cluster)
                case zk_paths.PREFERRED_ELECTION:
                    await requested_elections.read_listed(self._cluster)
                case zk_paths.REASSIGN_PARTITIONS:
                    await reassignment_phases.read_listed(self._cluster)
                case _ if path.startswith(f"{zk_paths.BROKER_IDS}/"):
                    await broker_changes.read_changes(self._cluster)
                case _ if path.startswith(f"{zk_paths.TOPICS}/"):
                    await topic_changes.read_topic(self._cluster, path.removeprefix(f"{zk_paths.TOPICS}/"))
            await reassignment_phases.unlist_completed(self._cluster)
            await self._cluster.send()

    async def on_answer(self, broker_id: int, request: BrokerRequest, errors: Mapping[PartitionKey, ErrorCode]) -> None:
        """Act on a broker's answer to a request; an error of the whole request is given for each partition."""
        broker = self.image.brokers.get(broker_id)
        if self._phase is not ControllerPhase.SERVING or broker is None or broker.epoch != request.broker_epoch:
            return
        with self._event():
            if isinstance(request, LeaderAndIsr):
                await broker_changes.note_replica_errors(self._cluster, broker_id, errors)
            elif isinstance(request, StopReplica):
                await deletions.note_deleted(self._cluster, broker_id, request, errors)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Mapping[PartitionKey, WantedIsr]
    ) -> dict[PartitionKey, PartitionState | ErrorCode]:
        """Change ISRs for a leader; return each partition's state or error."""
        with self._event():
            cluster = self._cluster
            isr_changes.check_sender(cluster.image.brokers, broker_id, broker_epoch)
            live = {broker: cluster.image.brokers[broker].epoch for broker in cluster.live_brokers()}
            errors = {
                key: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                for key in changes
                if (state := cluster.state(key)) is None or not state.is_stored
            }

            def altered(key: PartitionKey, state: PartitionState) -> PartitionState | None:
                try:
                    after = isr_changes.altered(state, changes[key], broker_id, live)
                except KafkaError as error:
                    errors[key] = error.code
                    return None
                return None if after is state else after

            changed, failed = await cluster.write_states([key for key in changes if key not in errors], altered)
            errors |= {key: isr_changes.code_of_failed_write(error) for key, error in failed.items()}
            states = {key: cluster.state(key) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for key in changes}
            cluster.requests.update_metadata(changed)
            await cluster.send()
            await reassignment_phases.complete(cluster, changed)
            await reassignment_phases.unlist_completed(cluster)
            return {**states, **errors}

    async def shut_down_broker(self, broker_id: int, broker_epoch: int) -> list[PartitionKey]:
        """Move leaderships off a broker that will stop; return the partitions that it still leads."""
        with self._event():
            return await controlled_shutdown.shut_down(self._cluster, broker_id, broker_epoch)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Return a block of ids that no other broker gets."""
        with self._event():
            isr_changes.check_sender(self.image.brokers, broker_id, broker_epoch)
            while True:
                [node] = await self._cluster.tree.get_many([zk_paths.PRODUCER_ID_BLOCK])
                if node is None:
                    raise KafkaError(f"{zk_paths.PRODUCER_ID_BLOCK} is missing", ErrorCode.UNKNOWN_SERVER_ERROR)
                block, write = producer_id_blocks.next_block(node, broker_id)
                [error] = await self._cluster.tree.write([write])
                if error is None:
                    return block

    async def elect_leaders(
        self, kind: ElectionKind, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, ErrorCode]:
        """Elect leaders of partitions, by default of all."""
        with self._event():
            partitions = await self._cluster.stored_partitions() if keys is None else keys
            return await requested_elections.elect(self._cluster, kind, partitions)

    async def elect_leaderless(self) -> None:
        """Elect leaders where there are none: unclean elections have become allowed."""
        with self._event():
            await self._cluster.elect_offline()

    async def balance_leaders(self) -> None:
        """Elect preferred leaders of brokers out of balance; due every leader.imbalance.check.interval.seconds."""
        with self._event():
            cluster = self._cluster
            live, percentage = cluster.live_brokers(), cluster.settings.leader_imbalance_percentage
            keys = await leader_balance.preferred_elections(cluster.partitions(), live, percentage)
            await requested_elections.elect(cluster, ElectionKind.PREFERRED, keys)

    async def alter_reassignments(
        self, targets: Mapping[PartitionKey, Sequence[int] | None], *, keeps_factor: bool = False
    ) -> dict[PartitionKey, KafkaError | None]:
        """Begin reassignments, or cancel those without a target; return each partition's error."""
        with self._event():
            results: dict[PartitionKey, KafkaError | None] = {}
            live = frozenset(self._cluster.live_brokers())
            async for key, target in self._cluster.slices.over(targets.items()):
                try:
                    await reassignment_phases.begin(self._cluster, key, target, live, keeps_factor)
                    results[key] = None
                except KafkaError as error:
                    results[key] = error
            await reassignment_phases.unlist_completed(self._cluster)
            return results

    async def list_reassignments(
        self, keys: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, PartitionState]:
        """Return running reassignments, by default all of them."""
        if self._phase is not ControllerPhase.SERVING:
            raise KafkaError(code=ErrorCode.NOT_CONTROLLER)
        cluster = self._cluster
        if keys is None:
            return {key: state async for key, state in cluster.partitions() if state.is_reassigned}
        states = ((key, cluster.state(key)) for key in dict.fromkeys(keys))
        return {
            key: state async for key, state in cluster.slices.over(states) if state is not None and state.is_reassigned
        }

    async def _check_term(self) -> None:
        [node] = await self._cluster.tree.get_many([zk_paths.CONTROLLER])
        if node is None or node.data != self.term.node:
            raise ControllerResigned("/controller names another controller")

    @contextmanager
    def _event(self, phase: ControllerPhase = ControllerPhase.SERVING) -> Iterator[None]:
        """Handle one event: afterwards send what it has collected, or resign."""
        if self._phase is not phase:
            raise KafkaError(code=ErrorCode.NOT_CONTROLLER)
        if self._is_busy:
            raise RuntimeError("The controller handles one event at a time")
        self._is_busy = True
        try:
            yield
        except ControllerResigned as error:
            self._phase = ControllerPhase.RESIGNED
            raise KafkaError(str(error), ErrorCode.NOT_CONTROLLER) from error
        finally:
            self._is_busy = False
            if self._phase is not ControllerPhase.RESIGNED:
                self._cluster.send_at_once()
