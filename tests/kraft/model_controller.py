"""A KRaft controller in Python, as a protocol of Twisted: one quorum member that leads, by the rules of KIP-631.

    controller = ModelController(reactor)
    reactor.listen("127.0.0.1", 9093, controller.factory)
    controller.create_topic("orders", {0: [1, 2]})      # or by a client's request, in an Envelope
    controller.fail_over()                              # another epoch; uncommitted records are lost

It commits what it appends at once, unless `holds_commits` is set. It fences brokers that are silent for a session,
moves their leaderships to another in-sync replica, and shrinks their ISRs. A broker under test reads its `log` by the
wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.protocol import Factory

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import (
    NO_ID,
    SUPPORTED,
    Request,
    Response,
    decode_request_header,
    request_codec,
)
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionDataResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResponse,
)
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from pylogbroker.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from pylogbroker.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartitionState,
    QuorumReplica,
    QuorumTopicState,
)
from pylogbroker.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from pylogbroker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pylogbroker.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotChunks
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.kraft import model_admin
from tests.kraft.controller_connection import connections_to, encoded
from tests.kraft.logs import LeaderLog
from tests.kraft.model_replicas import ReplicaDecisions
from tests.kraft.model_state import (
    TOPIC,
    Member,
    ModelState,
    Replicated,
    partition_change,
    partition_record,
    registration_record,
)

CLUSTER_ID: Final = "bW9kZWwgY29udHJvbGxlcg"
CONTROLLER_ID: Final = 100
SESSION_SECONDS: Final = 9.0
ELR: Final = "eligible.leader.replicas.version"
PRODUCER_IDS: Final = 1000
_FETCH_DELAY: Final = 0.001
"""Seconds after a commit, so that the answer to a change comes before its records."""
_KNOWN: Final = (
    FetchRequest,
    ApiVersionsRequest,
    BrokerRegistrationRequest,
    BrokerHeartbeatRequest,
    AlterPartitionRequest,
    AllocateProducerIdsRequest,
    FetchSnapshotRequest,
    AssignReplicasToDirsRequest,
    EnvelopeRequest,
    DescribeQuorumRequest,
    *model_admin.REQUESTS,
)


@attrs.define(eq=False)
class ModelController:
    """One controller that leads in `epoch`, until it is deposed; `address` is where brokers reach it."""

    reactor: Any
    port: int = 9093
    holds_commits: bool = False
    epoch: int = 1
    log: LeaderLog = attrs.field(factory=LeaderLog)
    node_id: int = CONTROLLER_ID
    host: str = "127.0.0.1"
    levels: Mapping[str, int] = attrs.field(factory=lambda: {"metadata.version": 33, "group.version": 1})
    """Features of a new cluster."""
    session_seconds: float = SESSION_SECONDS
    in_transaction: Callable[[], bool] = lambda: False
    """Says whether the records of a new topic are a metadata transaction."""
    appended: Callable[[ModelController], object] = lambda controller: None
    """Called after each batch."""
    state: ModelState = attrs.field(factory=ModelState)
    requests: list[Request] = attrs.field(factory=list)
    """All that came, the first one first."""
    observers: list[QuorumReplica] = attrs.field(factory=list)
    registration_error: int = ErrorCode.NONE
    described_high_watermark: int | None = None
    """In answers to DescribeQuorum, if it is not that of the log."""
    after_change: Callable[[], object] = lambda: None
    """Called after a change of topics or settings, before its answer: others' changes come here."""
    is_deposed: bool = False
    chunk_bytes: int = 500
    """Of a snapshot: few, so that tests have many chunks."""
    _waiting: list[Callable[[], None]] = attrs.field(factory=list)
    """Fetches at the end of the log."""
    _uncommitted: list[tuple[int, Response, Callable[[Response], None]]] = attrs.field(factory=list)
    """Answers, and the end of the log that must be committed before."""

    def __attrs_post_init__(self) -> None:
        self._lead()
        if not self.state.levels:
            self.append(*(FeatureLevelRecord(name, level) for name, level in self.levels.items()))
        self._watch_sessions()

    def _lead(self) -> None:
        """Begin an epoch: take the state of the log, and end a transaction that nobody ends any more."""
        self.state = ModelState.of(self.log.committed(self.log.end))
        for member in self.state.members.values():
            member.heard = self.reactor.seconds()
        is_open = self.state.transaction is not None
        self.log.append(self.epoch, None)
        self._appended()
        if is_open:
            self.append(AbortTransactionRecord("another controller leads"))

    @property
    def members(self) -> dict[int, Member]:
        return self.state.members

    @property
    def topics(self) -> dict[str, UUID]:
        return self.state.topics

    @property
    def partitions(self) -> dict[tuple[UUID, int], Replicated]:
        return self.state.partitions

    @property
    def replicas(self) -> ReplicaDecisions:
        return ReplicaDecisions(self.state, bool(self.state.levels.get(ELR)))

    @property
    def factory(self) -> Factory:
        return connections_to(self.answer)

    # the log

    def append(self, *records: MetadataRecord) -> int:
        """Append a batch; return the offset of its first record."""
        offset = self.log.end
        if records:
            self.log.append(self.epoch, records)
            for record in records:
                self.state.apply(record)
            self._appended()
        return offset

    def _appended(self) -> None:
        if not self.holds_commits:
            self.commit()
        else:
            self._wake_fetches()
            self.appended(self)

    def commit(self, end: int | None = None) -> None:
        self.log.high_watermark = max(self.log.high_watermark, self.log.end if end is None else end)
        self._wake_fetches()
        ready = [answer for answer in self._uncommitted if answer[0] <= self.log.high_watermark]
        self._uncommitted = [answer for answer in self._uncommitted if answer[0] > self.log.high_watermark]
        for _, answer, done in ready:
            done(answer)

    def _wake_fetches(self) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    def fail_over(self, epochs: int = 1) -> None:
        """Lose what is not committed, and lead in a later epoch."""
        self.log.entries = [entry for entry in self.log.entries if entry.end <= self.log.high_watermark]
        self.epoch += epochs
        self._reject()
        self._lead()
        self.commit()

    def depose(self) -> None:
        """Lead no more: another controller does."""
        self.is_deposed = True
        self._reject()
        self._wake_fetches()

    def _reject(self) -> None:
        """Answer that the outcome of what was not committed is unknown."""
        rejected, self._uncommitted = self._uncommitted, []
        for _, answer, done in rejected:
            if hasattr(answer, "error_code"):
                done(type(answer)(error_code=ErrorCode.NOT_CONTROLLER))

    def begin_with_snapshot(self) -> None:
        """Let the log begin at the end of what is committed: who is behind has to take the snapshot."""
        self.log.take_snapshot(lambda records: list(ModelState.of(records).records()))

    # topics

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str] = {}) -> UUID:
        topic_id = UUID(int=1000 + len(self.topics) + self.log.end)
        records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
        records += [ConfigRecord(TOPIC, name, key, value) for key, value in configs.items()]
        for number, replicas in assignment.items():
            live = [broker for broker in replicas if self.state.is_live(broker)]
            state = Replicated(list(replicas), live or [replicas[0]], live[0] if live else -1)
            records.append(partition_record(topic_id, number, state))
        if self.in_transaction():
            self.append(BeginTransactionRecord("topic"))
            for record in records:
                self.append(record)
            self.append(EndTransactionRecord())
        else:
            self.append(*records)
        return topic_id

    def delete_topic(self, name: str) -> None:
        self.append(RemoveTopicRecord(self.topics[name]))

    def change(self, topic: UUID, number: int, **after: Any) -> Replicated:
        state = self.partitions[topic, number]
        record = partition_change((topic, number), state, **after) or PartitionChangeRecord(number, topic)
        self.append(record)
        return state

    # brokers

    def fence(self, broker: int) -> None:
        """Fence a broker, and move its leaderships."""
        fenced = BrokerRegistrationChangeRecord(broker, self.members[broker].epoch, fenced=1)
        self.append(fenced, *self.replicas.without(broker))

    def _watch_sessions(self) -> None:
        if self.is_deposed:
            return
        now = self.reactor.seconds()
        for broker, member in list(self.members.items()):
            if not member.is_fenced and now - member.heard > self.session_seconds:
                self.fence(broker)
        self.reactor.callLater(self.session_seconds / 9, self._watch_sessions)

    # requests

    def answer(self, request: Any, version: int, done: Callable[[Response], None]) -> None:
        """Answer a request once all is committed that the answer depends on."""
        self.requests.append(request)
        match request:
            case FetchRequest():
                self._fetch(request, done)
            case ApiVersionsRequest():
                done(offered())
            case FetchSnapshotRequest():
                done(self._chunk(request))
            case _:
                answer = self._answer_at_once(request, version)
                if self.log.end <= self.log.high_watermark:
                    done(answer)
                else:
                    self._uncommitted.append((self.log.end, answer, done))

    def _answer_at_once(self, request: Any, version: int) -> Response:
        match request:
            case BrokerRegistrationRequest():
                return self._register(request)
            case BrokerHeartbeatRequest():
                return self._hear(request)
            case AllocateProducerIdsRequest():
                first = self.state.next_producer_id
                self.append(ProducerIdsRecord(request.broker_id, request.broker_epoch, first + PRODUCER_IDS))
                return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_IDS)
            case AlterPartitionRequest():
                return self._alter(request)
            case AssignReplicasToDirsRequest():
                return self._assign(request)
            case EnvelopeRequest():
                return self._enveloped(request)
            case DescribeQuorumRequest():
                return self._describe(request)
        return model_admin.answer(self, request)

    def _fetch(self, request: FetchRequest, done: Callable[[Response], None]) -> None:
        [asked] = request.topics[0].partitions

        def answer() -> None:
            if self.is_deposed:
                done(other_leads(request))
                return
            if request.cluster_id != CLUSTER_ID:
                done(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
                return
            data = self.log.answer(asked.fetch_offset, asked.last_fetched_epoch, 3)
            data.current_leader = LeaderIdAndEpoch(self.node_id, self.epoch)
            if asked.current_leader_epoch > self.epoch:
                data.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
            elif 0 <= asked.current_leader_epoch < self.epoch:
                data.error_code, data.records = ErrorCode.FENCED_LEADER_EPOCH, b""
            done(
                FetchResponse(
                    responses=[FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[data])],
                    node_endpoints=[NodeEndpoint(self.node_id, self.host, self.port)],
                )
            )

        is_behind = asked.fetch_offset < self.log.end or asked.current_leader_epoch != self.epoch
        if is_behind:
            answer()
            return
        timer = self.reactor.callLater(request.max_wait_ms / 1000, lambda: (self._waiting.remove(early), answer()))

        def early() -> None:
            timer.cancel()
            self.reactor.callLater(_FETCH_DELAY, answer)

        self._waiting.append(early)

    def _describe(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        voter = QuorumReplica(self.node_id, log_end_offset=self.log.end)
        given = self.described_high_watermark
        high_watermark = self.log.high_watermark if given is None else given
        state = QuorumPartitionState(0, 0, None, self.node_id, self.epoch, high_watermark, [voter], self.observers)
        return DescribeQuorumResponse(0, None, [QuorumTopicState(request.topics[0].topic_name, [state])])

    def _chunk(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        [asked] = request.topics[0].partitions
        chunk = self.log.chunk(asked.snapshot_id, asked.position, self.chunk_bytes)
        return FetchSnapshotResponse(topics=[SnapshotChunks(request.topics[0].name, [chunk])])

    def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        for directory in request.directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    state = self.partitions.get((topic.topic_id, part.partition_index))
                    replicas = [] if state is None else state.replicas
                    if request.broker_id not in replicas:
                        continue
                    known = [directory.id if broker == request.broker_id else NO_ID for broker in replicas]
                    self.append(PartitionChangeRecord(part.partition_index, topic.topic_id, directories=known))
        return AssignReplicasToDirsResponse()

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        if request.cluster_id != CLUSTER_ID:
            return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if self.registration_error:
            return BrokerRegistrationResponse(error_code=self.registration_error)
        broker, before = request.broker_id, self.members.get(request.broker_id)
        is_new_life = before is not None and before.incarnation != request.incarnation_id
        if before is not None and not before.is_fenced and is_new_life:
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        epoch = self.log.end
        records: list[MetadataRecord] = [registration_record(request, epoch)]
        if before is not None and is_new_life:
            is_unclean = request.previous_broker_epoch != before.epoch
            records += self.replicas.without(broker, is_unclean=is_unclean)
        self.append(*records)
        self.members[broker].heard = self.reactor.seconds()
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _hear(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        broker, member = request.broker_id, self.members.get(request.broker_id)
        if member is None:
            return BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if member.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        member.heard = self.reactor.seconds()
        is_caught_up = request.current_metadata_offset >= member.epoch
        if request.want_shut_down and not member.is_leaving:
            left = BrokerRegistrationChangeRecord(broker, member.epoch, in_controlled_shutdown=1)
            self.append(left, *self.replicas.without(broker))
        elif member.is_fenced and is_caught_up and not request.want_fence:
            unfenced = BrokerRegistrationChangeRecord(broker, member.epoch, fenced=-1)
            self.append(unfenced, *self.replicas.elected(broker))
        if member.is_leaving and not member.is_fenced:
            self.fence(broker)
        return BrokerHeartbeatResponse(0, 0, is_caught_up, member.is_fenced, member.is_leaving)

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        member = self.members.get(request.broker_id)
        if member is None or member.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        topics = []
        for topic in request.topics:
            parts = [self._altered(request.broker_id, topic.topic_id, part) for part in topic.partitions]
            topics.append(AlterPartitionTopicResponse("", topic.topic_id, parts))
        return AlterPartitionResponse(topics=topics)

    def _altered(self, broker: int, topic: UUID, part: AlterPartitionData) -> AlterPartitionDataResponse:
        number = part.partition_index
        answer, decision = AlterPartitionDataResponse(number), self.replicas.alter(broker, (topic, number), part)
        if isinstance(decision, ErrorCode):
            answer.error_code = decision
            return answer
        self.append(*decision)
        state = self.partitions[topic, number]
        if state.leader_epoch != part.leader_epoch:
            answer.error_code = ErrorCode.NEW_LEADER_ELECTED
            return answer
        answer.leader_id, answer.leader_epoch = state.leader, state.leader_epoch
        answer.isr, answer.partition_epoch = list(state.isr), state.partition_epoch
        return answer

    def _enveloped(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        data = memoryview(envelope.request_data)
        header, position = decode_request_header(data)
        request = request_codec(header.api_key, header.api_version).decode(data, position)
        self.requests.append(request)
        return EnvelopeResponse(encoded(self._answer_at_once(request, header.api_version), header))


def offered() -> ApiVersionsResponse:
    keys = [ApiVersion(known.api_key, known.versions.first, known.versions.last) for known in _KNOWN]
    return ApiVersionsResponse(api_keys=keys)


def other_leads(request: Request, leader: NodeEndpoint | None = None, epoch: int = -1) -> Response | None:
    """Return the answer of a controller that does not lead; None for a request that has no such answer."""
    if isinstance(request, ApiVersionsRequest):
        return offered()
    if isinstance(request, FetchRequest):
        data = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if epoch >= 0:
            data.current_leader = LeaderIdAndEpoch(-1 if leader is None else leader.node_id, epoch)
        topic = FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[data])
        return FetchResponse(responses=[topic], node_endpoints=[] if leader is None else [leader])
    kind = SUPPORTED[request.api_key][1]
    return kind(error_code=ErrorCode.NOT_CONTROLLER) if hasattr(kind(), "error_code") else None
