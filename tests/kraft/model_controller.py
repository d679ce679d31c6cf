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

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.protocol import Factory, Protocol

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import (
    NO_ID,
    SUPPORTED,
    Request,
    RequestHeader,
    Response,
    decode_request_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.headers import response_header_format
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
from pylogbroker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pylogbroker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
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
)
from pylogbroker.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotChunks
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pylogbroker.wire.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.kraft.logs import LeaderLog

CLUSTER_ID: Final = "bW9kZWwgY29udHJvbGxlcg"
CONTROLLER_ID: Final = 100
SESSION_SECONDS: Final = 9.0
_SIZE: Final = struct.Struct(">i")
_CHUNK_BYTES: Final = 500
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
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    DescribeQuorumRequest,
)


@attrs.define
class Member:
    """A broker as the controller knows it."""

    epoch: int
    incarnation: UUID
    is_fenced: bool = True
    heard: float = 0.0
    is_leaving: bool = False


@attrs.define
class Replicated:
    """A partition as of the end of the log."""

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0


@attrs.define(eq=False)
class ModelController:
    reactor: Any
    port: int = 9093
    holds_commits: bool = False
    epoch: int = 1
    log: LeaderLog = attrs.field(factory=LeaderLog)
    members: dict[int, Member] = attrs.field(factory=dict)
    topics: dict[str, UUID] = attrs.field(factory=dict)
    partitions: dict[tuple[UUID, int], Replicated] = attrs.field(factory=dict)
    requests: list[Request] = attrs.field(factory=list)
    """All that came, the first one first."""
    snapshot_of: list[MetadataRecord] = attrs.field(factory=list)
    observers: list[QuorumReplica] = attrs.field(factory=list)
    registration_error: int = ErrorCode.NONE
    described_high_watermark: int | None = None
    """In answers to DescribeQuorum, if it is not that of the log."""
    after_change: Callable[[], object] = lambda: None
    """Called after a change of topics or settings, before its answer: others' changes come here."""
    _next_producer_id: int = 1000
    _waiting: list[Callable[[], None]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.log.append(self.epoch, None)
        self.append(FeatureLevelRecord("metadata.version", 33), FeatureLevelRecord("group.version", 1))
        self._watch_sessions()

    @property
    def factory(self) -> Factory:
        made = Factory.forProtocol(_Connection)
        made.controller = self
        return made

    # the log

    def append(self, *records: MetadataRecord) -> int:
        """Append a batch; return the offset of its first record."""
        offset = self.log.end
        self.log.append(self.epoch, records)
        if not self.holds_commits:
            self.commit()
        return offset

    def commit(self) -> None:
        self.log.high_watermark = self.log.end
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    def fail_over(self, epochs: int = 1) -> None:
        """Lose what is not committed, and lead in a later epoch."""
        self.log.entries = [entry for entry in self.log.entries if entry.end <= self.log.high_watermark]
        self.epoch += epochs
        self.log.append(self.epoch, None)
        self.commit()

    def begin_with_snapshot(self) -> None:
        """Let the log begin at its end: who is behind has to take the snapshot."""
        self.log.start = self.log.high_watermark

    # topics

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str] = {}) -> UUID:
        topic_id = UUID(int=1000 + len(self.topics) + self.log.end)
        records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
        records += [ConfigRecord(2, name, key, value) for key, value in configs.items()]
        for number, replicas in assignment.items():
            live = [broker for broker in replicas if self._is_live(broker)]
            state = Replicated(list(replicas), live or [replicas[0]], live[0] if live else -1)
            self.partitions[topic_id, number] = state
            records.append(
                PartitionRecord(
                    number,
                    topic_id,
                    state.replicas,
                    state.isr,
                    leader=state.leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[UUID(int=0)] * len(replicas),
                )
            )
        self.topics[name] = topic_id
        self.append(*records)
        return topic_id

    def delete_topic(self, name: str) -> None:
        topic_id = self.topics.pop(name)
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]
        self.append(RemoveTopicRecord(topic_id))

    def change(
        self, topic: UUID, number: int, *, isr: list[int] | None = None, leader: int | None = None
    ) -> Replicated:
        state = self.partitions[topic, number]
        record = PartitionChangeRecord(number, topic, isr=isr)
        if leader is not None:
            record.leader = state.leader = leader
            state.leader_epoch += 1
        if isr is not None:
            state.isr = isr
        state.partition_epoch += 1
        self.append(record)
        return state

    def _is_live(self, broker: int) -> bool:
        member = self.members.get(broker)
        return member is not None and not member.is_fenced and not member.is_leaving

    # brokers

    def fence(self, broker: int) -> None:
        """Fence a broker, and move its leaderships."""
        self.members[broker].is_fenced = True
        self.append(BrokerRegistrationChangeRecord(broker, self.members[broker].epoch, fenced=1))
        self._move_away(broker)

    def _move_away(self, broker: int) -> None:
        for (topic, number), state in list(self.partitions.items()):
            others = [other for other in state.isr if other != broker]
            if state.leader == broker:
                live = [other for other in others if self._is_live(other)]
                self.change(topic, number, isr=others or None, leader=live[0] if live else -1)
            elif broker in state.isr and others:
                self.change(topic, number, isr=others)

    def _elect(self) -> None:
        for (topic, number), state in list(self.partitions.items()):
            live = [broker for broker in state.isr if self._is_live(broker)]
            if state.leader == -1 and live:
                self.change(topic, number, leader=live[0])

    def _watch_sessions(self) -> None:
        now = self.reactor.seconds()
        for broker, member in self.members.items():
            if not member.is_fenced and now - member.heard > SESSION_SECONDS:
                self.fence(broker)
        self.reactor.callLater(1.0, self._watch_sessions)

    # requests

    def answer(self, request: Any, version: int, done: Callable[[Response], None]) -> None:
        self.requests.append(request)
        match request:
            case FetchRequest():
                self._fetch(request, done)
            case _:
                done(self._answer_at_once(request, version))

    def _answer_at_once(self, request: Any, version: int) -> Response:
        match request:
            case ApiVersionsRequest():
                keys = [ApiVersion(known.api_key, known.versions.first, known.versions.last) for known in _KNOWN]
                return ApiVersionsResponse(api_keys=keys)
            case BrokerRegistrationRequest():
                return self._register(request)
            case BrokerHeartbeatRequest():
                return self._hear(request)
            case AllocateProducerIdsRequest():
                first, self._next_producer_id = self._next_producer_id, self._next_producer_id + 1000
                return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)
            case AlterPartitionRequest():
                return self._alter(request)
            case FetchSnapshotRequest():
                return self._chunk(request)
            case AssignReplicasToDirsRequest():
                return self._assign(request)
            case EnvelopeRequest():
                return self._enveloped(request)
            case CreateTopicsRequest():
                created = [self._create(topic) for topic in request.topics]
                self.after_change()
                return CreateTopicsResponse(topics=created)
            case DeleteTopicsRequest():
                return self._delete(request)
            case IncrementalAlterConfigsRequest():
                return self._configure(request)
            case DescribeQuorumRequest():
                return self._describe(request)
        raise AssertionError(f"the model has no answer to {request!r}")

    def _fetch(self, request: FetchRequest, done: Callable[[Response], None]) -> None:
        [asked] = request.topics[0].partitions

        def answer() -> None:
            data = self.log.answer(asked.fetch_offset, asked.last_fetched_epoch, 3)
            if asked.current_leader_epoch != self.epoch:
                data.current_leader = LeaderIdAndEpoch(CONTROLLER_ID, self.epoch)
            if asked.current_leader_epoch > self.epoch:
                data.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
            elif 0 <= asked.current_leader_epoch < self.epoch:
                data.error_code, data.records = ErrorCode.FENCED_LEADER_EPOCH, b""
            done(
                FetchResponse(
                    responses=[FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[data])],
                    node_endpoints=[NodeEndpoint(CONTROLLER_ID, "127.0.0.1", self.port)],
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
        voter = QuorumReplica(CONTROLLER_ID, log_end_offset=self.log.end)
        given = self.described_high_watermark
        high_watermark = self.log.high_watermark if given is None else given
        state = QuorumPartitionState(0, 0, None, CONTROLLER_ID, self.epoch, high_watermark, [voter], self.observers)
        return DescribeQuorumResponse(0, None, [QuorumTopicState(request.topics[0].topic_name, [state])])

    def _chunk(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        [asked] = request.topics[0].partitions
        chunk = self.log.chunk(asked.snapshot_id, asked.position, _CHUNK_BYTES)
        return FetchSnapshotResponse(topics=[SnapshotChunks(request.topics[0].name, [chunk])])

    def _assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        for directory in request.directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    replicas = self.partitions[topic.topic_id, part.partition_index].replicas
                    known = [directory.id if broker == request.broker_id else NO_ID for broker in replicas]
                    self.partitions[topic.topic_id, part.partition_index].partition_epoch += 1
                    self.append(PartitionChangeRecord(part.partition_index, topic.topic_id, directories=known))
        return AssignReplicasToDirsResponse()

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        if request.cluster_id != CLUSTER_ID:
            return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if self.registration_error:
            return BrokerRegistrationResponse(error_code=self.registration_error)
        before = self.members.get(request.broker_id)
        if before is not None and not before.is_fenced and before.incarnation != request.incarnation_id:
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        epoch = self.log.end
        self.members[request.broker_id] = Member(epoch, request.incarnation_id, heard=self.reactor.seconds())
        self.append(
            RegisterBrokerRecord(
                request.broker_id,
                False,
                request.incarnation_id,
                epoch,
                request.listeners,
                request.features,
                request.rack,
                log_dirs=request.log_dirs,
            )
        )
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _hear(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        member = self.members.get(request.broker_id)
        if member is None:
            return BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if member.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        member.heard = self.reactor.seconds()
        is_caught_up = request.current_metadata_offset >= member.epoch
        if request.want_shut_down and not member.is_leaving:
            member.is_leaving = True
            self.append(BrokerRegistrationChangeRecord(request.broker_id, member.epoch, in_controlled_shutdown=1))
            self._move_away(request.broker_id)
        elif member.is_fenced and is_caught_up and not request.want_fence:
            member.is_fenced = False
            self.append(BrokerRegistrationChangeRecord(request.broker_id, member.epoch, fenced=-1))
            self._elect()
        if member.is_leaving and not member.is_fenced:
            self.fence(request.broker_id)
        return BrokerHeartbeatResponse(0, 0, is_caught_up, member.is_fenced, member.is_leaving)

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        topics = []
        for topic in request.topics:
            parts = [self._altered(request.broker_id, topic.topic_id, part) for part in topic.partitions]
            topics.append(AlterPartitionTopicResponse("", topic.topic_id, parts))
        return AlterPartitionResponse(topics=topics)

    def _altered(self, broker: int, topic: UUID, part: AlterPartitionData) -> AlterPartitionDataResponse:
        state = self.partitions.get((topic, part.partition_index))
        answer = AlterPartitionDataResponse(part.partition_index)
        isr = [member.broker_id for member in part.new_isr_with_epochs]
        if state is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif (broker, part.leader_epoch) != (state.leader, state.leader_epoch):
            answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif part.partition_epoch != state.partition_epoch:
            answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
        elif not all(self._is_live(member) for member in isr):
            answer.error_code = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.change(topic, part.partition_index, isr=isr)
            answer.leader_id, answer.leader_epoch = state.leader, state.leader_epoch
            answer.isr, answer.partition_epoch = state.isr, state.partition_epoch
        return answer

    def _enveloped(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        data = memoryview(envelope.request_data)
        header, position = decode_request_header(data)
        request = request_codec(header.api_key, header.api_version).decode(data, position)
        self.requests.append(request)
        answer = self._answer_at_once(request, header.api_version)
        return EnvelopeResponse(encoded(answer, header))

    def _create(self, topic: CreatableTopic) -> CreatableTopicResult:
        if topic.name in self.topics:
            return CreatableTopicResult(topic.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="exists")
        live = [broker for broker in sorted(self.members) if self._is_live(broker)]
        assignment = {given.partition_index: given.broker_ids for given in topic.assignments}
        if not assignment:
            factor = max(1, topic.replication_factor)
            assignment = {
                number: [live[(number + place) % len(live)] for place in range(factor)]
                for number in range(max(1, topic.num_partitions))
            }
        configs = {config.name: config.value or "" for config in topic.configs}
        return CreatableTopicResult(topic.name, self.create_topic(topic.name, assignment, configs))

    def _delete(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = {topic_id: name for name, topic_id in self.topics.items()}
        results = []
        named = [DeleteTopicState(name) for name in request.topic_names]
        for topic in [*request.topics, *named]:
            name = topic.name or names[topic.topic_id]
            topic_id = self.topics[name]
            self.delete_topic(name)
            results.append(DeletableTopicResult(name, topic_id))
        return DeleteTopicsResponse(responses=results)

    def _configure(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        answers = []
        for resource in request.resources:
            self.append(
                *(
                    ConfigRecord(
                        resource.resource_type,
                        resource.resource_name,
                        config.name,
                        None if config.config_operation == 1 else config.value,
                    )
                    for config in resource.configs
                )
            )
            self.after_change()
            answers.append(AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name))
        return IncrementalAlterConfigsResponse(responses=answers)


def encoded(answer: Response, header: RequestHeader) -> bytes:
    """Return a response with its header, without its size."""
    head = struct.pack(">" + response_header_format(header.api_key, header.api_version), header.correlation_id)
    return head + response_codec(header.api_key, header.api_version).encode(answer)


class _Connection(Protocol):
    """One connection: requests are answered in their order, as they come."""

    def __init__(self) -> None:
        self._received = b""

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            frame, self._received = self._received[_SIZE.size : end], self._received[end:]
            self._handle(memoryview(frame))

    def _handle(self, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        version = min(header.api_version, SUPPORTED[header.api_key][0].versions.last)
        request = request_codec(header.api_key, version).decode(frame, position)

        def done(answer: Response) -> None:
            data = encoded(answer, header)
            self.transport.write(_SIZE.pack(len(data)) + data)

        self.factory.controller.answer(request, version, done)
