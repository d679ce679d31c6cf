"""Reads for fetch requests.

    replica here  fetcher          answered with
    ------------  ---------------  ---------------------------------------------------------------
    leader        a follower       records up to the log end
    leader        a consumer       records up to the high watermark, or a replica to ask (KIP-392)
    follower      a consumer       records up to this follower's high watermark
    follower      a follower       NOT_LEADER_OR_FOLLOWER, as for old versions

A `ConsumerReader` answers consumers, a `FollowerReader` followers, whose fetches confirm what they have.

An error of one partition leaves the answers of the others alone. `archived_reads` has those of archived logs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from pylogbroker.broker.fetch.archived_reads import ArchivedRead, read_later
from pylogbroker.broker.fetch.conversion import FIRST_WITH_BYTE_LIMIT, FIRST_WITH_V2, FIRST_WITH_V2_ALONE
from pylogbroker.broker.fetch.readahead import READ_INLINE_BYTES_MAX, is_cached, magic_if_cached, read_if_cached
from pylogbroker.broker.fetch.session import CONSUMER, RequestedPartition, TopicKey, fetcher_of
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.current_leaders import find_leader
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.services import HasFetches, HasMetadata, HasNode, HasPartitions, HasQuotas, HasRuntime
from pylogbroker.config.value_kinds import INT_MAX
from pylogbroker.errors import ErrorCode, KafkaError, OffsetTiered, StorageFailure
from pylogbroker.records import HEADER_V2, MAGIC_AT, Buffer
from pylogbroker.replication import EpochEnd, FollowerFetch
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import FileRegion, Log, NotCached
from pylogbroker.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

READ_COMMITTED = 1
NEWS_BYTES_MAX = 4096
"""Larger records are read as usual: the steps that this saves cost little beside them."""
_LEADER_SERVES = -1

_EMPTY_BATCH_SIZE = HEADER_V2.size
_EMPTY_BATCHES_SKIPPED_MAX = 200  # in one read; each takes microseconds, while other requests wait
_FIRST_WITH_STORAGE_ERROR = 6
_FIRST_WITH_ZSTD = 10
_FIRST_FROM_FOLLOWERS = 11
_FIRST_WITH_LEADERS = 16
_ERRORS_OF_LEADERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Services(HasRuntime, HasMetadata, HasPartitions, HasQuotas, HasNode, HasFetches, Protocol):
    """Services that this module uses."""


class FetchReader(ABC):
    """Reads the partitions of one request in order, within its limits. `begin` starts a pass.

    `is_urgent`: an answer has an error or other news. `uncached` has the parts of indexes and headers to bring from the
    disk before the next read. `partitions` has the partition of each answer; None if it has an error or was held back.
    """

    __slots__ = (
        "_access",
        "_context",
        "_services",
        "announces_high_watermarks",
        "answers",
        "archived",
        "is_committed",
        "is_urgent",
        "leaders",
        "left",
        "limit",
        "needs_v2",
        "partitions",
        "request",
        "uncached",
    )
    fetcher: ClassVar[str]
    """The kind of fetcher, for metrics."""
    mark: ClassVar[Mark]
    """Mark that the fetcher waits for."""
    skips_empty_batches: ClassVar[bool]
    _services: _Services
    _context: RequestContext
    request: FetchRequest
    answers: list[PartitionData]
    limit: int  # bytes of records in all answers
    left: int  # what remains of `limit`
    is_urgent: bool
    uncached: list[FileRegion]
    archived: list[ArchivedRead]
    partitions: list[Partition | None]
    leaders: dict[int, NodeEndpoint]  # that errors name
    is_committed: bool
    announces_high_watermarks: bool
    """True if a follower gets a higher high watermark at once, since consumers may wait for it there (KIP-392)."""
    needs_v2: bool
    _access: Access | None

    def __init__(self, services: _Services, context: RequestContext, request: FetchRequest) -> None:
        self._services = services
        self._context = context
        self.request = request
        self._access = context.access
        self.limit = services.fetches.bytes_max
        if context.api_version >= FIRST_WITH_BYTE_LIMIT and request.max_bytes < self.limit:
            self.limit = request.max_bytes

    @property
    def api_version(self) -> int:
        return self._context.api_version

    @property
    def size(self) -> int:
        return self.limit - self.left

    @property
    def has_enough(self) -> bool:
        """True if the request does not want to wait for more."""
        request = self.request
        return self.is_urgent or self.limit - self.left >= request.min_bytes or request.max_wait_ms <= 0

    def begin(self, resumes: bool = False) -> None:
        """Begin a pass; one that `resumes` the request after a wait counts as no other fetch of a follower."""
        self.answers = []
        self.left = self.limit
        self.is_urgent = False
        self.uncached = []
        self.archived = []
        self.partitions = []
        self.leaders = {}

    def forget(self) -> None:
        """Release what was read: the response has it."""
        self.answers, self.partitions = [], []

    @abstractmethod
    def find(self, requested: RequestedPartition) -> Partition:
        """Return a partition that may serve this fetcher; raise KafkaError if it may not, or is not here."""

    def find_for_wait(self, requested: RequestedPartition) -> Partition | None:
        """Return a partition whose growth may end a wait; None if it has an error, or is held back."""
        try:
            return self.find(requested)
        except KafkaError:  # the next read raises it again
            return None

    def has_grown(self) -> bool:
        """Return whether partitions have grown since a follower read them in this pass."""
        return False

    def note_answer(self) -> None:
        """Count the records of an answer for throttles of replication."""
        return

    def complete_acknowledged(self) -> None:
        """Answer at once the producers whose records this fetch acknowledges: they do not wait for its end."""
        return

    def throttle_ms(self) -> int:
        """Return for how long the fetcher is throttled that would get what was read; it counts if it is not."""
        return 0

    @abstractmethod
    def count_sent(self, partition: Partition, size: int) -> None:
        """Count bytes of records that leave."""

    def read(self, some: Sequence[RequestedPartition], may_wait: bool = False) -> None:
        """Read the next partitions; with `may_wait`, also from the disk."""
        for requested in some:
            partition = None
            try:
                replica = self.find(requested)
                replica.traffic.fetches += 1
                if self._context.api_version < _FIRST_WITH_ZSTD:
                    self._check_age(replica)
                answer, partition = self._read_partition(replica, requested, may_wait)
            except KafkaError as error:
                self.is_urgent = True
                answer = PartitionData(requested.partition.partition)
                self.fail(answer, error.code)
                traffic = self._services.partitions.traffic.of(self._name_of(requested.topic))
                traffic.fetch_errors[error.code] += 1
                if error.code in _ERRORS_OF_LEADERS and self._context.api_version >= _FIRST_WITH_LEADERS:
                    self._name_leader(requested, answer)
            except NotCached as missing:
                self.is_urgent = True
                answer = PartitionData(requested.partition.partition)
                self.uncached.append(missing.region)
            self.answers.append(answer)
            self.partitions.append(partition)

    def _name_of(self, topic: TopicKey) -> str:
        """Return the name of a topic, or "" if none has its id."""
        if isinstance(topic, str):
            return topic
        topic_image = self._services.metadata.image.topic_by_id(topic)
        return "" if topic_image is None else topic_image.name

    def count_converted(self, topic: TopicKey, records: int, size: int, ns: int) -> None:
        """Count records that were converted to `size` bytes in `ns` nanoseconds. Any thread may call."""
        self._services.partitions.traffic.of(self._name_of(topic)).fetch_converted(records, size, ns)

    @abstractmethod
    def _read_partition(
        self, partition: Partition, requested: RequestedPartition, may_wait: bool
    ) -> tuple[PartitionData, Partition | None]:
        """Return an answer, and its partition unless it is held back."""

    def _read_records(
        self, partition: Partition, fetch: FetchPartition, answer: PartitionData, upto: int, may_wait: bool
    ) -> FileRegion | None:
        """Put the records below `upto` that the limits allow into the answer; return their region."""
        log, left = partition.log, self.left
        max_bytes = min(fetch.partition_max_bytes, max(0, left))
        min_one = left == self.limit or (left > 0 and self._context.api_version < FIRST_WITH_BYTE_LIMIT)
        offset = partition.after_empty_range(fetch.fetch_offset) if log.byte_addressed else fetch.fetch_offset
        try:
            region = log.read(offset, max_bytes, upto=upto, min_one=min_one, may_wait=may_wait)
            if self.skips_empty_batches and region is not None and region.length == _EMPTY_BATCH_SIZE:
                region = self._behind_empty_batches(log, region, max_bytes, upto, min_one, may_wait)
            if region is not None and self.is_committed:
                aborted = log.aborted_transactions(fetch.fetch_offset, region.next_offset, may_wait=may_wait)
                answer.aborted_transactions = [
                    AbortedTransaction(transaction[0], transaction[1]) for transaction in aborted
                ]
        except StorageFailure as failure:
            self._services.partitions.request_failed(log, failure)
            raise
        if region is not None:
            answer.records = region
            self.left = left - region.length
        return region

    def _behind_empty_batches(
        self, log: Log, region: FileRegion, max_bytes: int, upto: int, min_one: bool, may_wait: bool
    ) -> FileRegion:
        """Skip batches that compaction has emptied.

        librdkafka takes several answers without records for a record that is too large. After many empty batches, the
        last one is the answer: the consumer goes on behind it.
        """
        for _ in range(_EMPTY_BATCHES_SKIPPED_MAX):
            if region.length != _EMPTY_BATCH_SIZE or region.first_position >= 0:
                break
            behind = log.read(region.next_offset, max_bytes, upto=upto, min_one=min_one, may_wait=may_wait)
            if behind is None:
                break
            region = behind
        return region

    def _report_divergence(self, answer: PartitionData, diverging: EpochEnd) -> None:
        answer.diverging_epoch = EpochEndOffset(diverging.epoch, diverging.end_offset)
        self.is_urgent = True

    def fail(self, answer: PartitionData, code: ErrorCode) -> None:
        """Replace an answer by an error that the client knows."""
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _FIRST_WITH_STORAGE_ERROR:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_code, answer.records = code, b""
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1

    def _name_leader(self, requested: RequestedPartition, answer: PartitionData) -> None:
        leader = find_leader(self._services, self._context, requested.topic, requested.partition.partition)
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
            if (address := leader.address) is not None:
                self.leaders[address.id] = NodeEndpoint(address.id, address.host, address.port, address.rack)

    def _check_age(self, partition: Partition) -> None:
        if self._context.api_version < FIRST_WITH_V2 and not partition.may_down_convert:
            raise KafkaError("message.downconversion.enable is false", ErrorCode.UNSUPPORTED_VERSION)
        if partition.log.config.compression_type == "zstd":
            raise KafkaError("the topic is compressed with zstd", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def is_ready(self, some: Sequence[PartitionData]) -> bool:
        """Return whether the answers can be sent at once; reads small regions from the page cache."""
        if self.uncached or self.archived:
            return False
        if self._context.api_version < FIRST_WITH_V2:
            return self.left == self.limit
        for answer in some:
            region = answer.records
            if not isinstance(region, FileRegion):
                continue
            if region.first_position >= 0:
                return False
            if region.length > READ_INLINE_BYTES_MAX:
                if not is_cached(region) or (self.needs_v2 and magic_if_cached(region) != 2):
                    return False
            elif (data := read_if_cached(region)) is not None and not (self.needs_v2 and data[MAGIC_AT] != 2):
                answer.records = data
            else:
                return False
        return True


class ConsumerReader(FetchReader):
    """Reads up to the high watermark, or the last stable offset; may name a replica that is nearer."""

    __slots__ = (
        "_may_follow",
        "_rack",
    )
    fetcher = "consumer"
    mark = Mark.HIGH_WATERMARK
    skips_empty_batches = True
    _may_follow: bool
    _rack: str  # empty if the leader serves all racks

    def __init__(self, services: _Services, context: RequestContext, request: FetchRequest) -> None:
        super().__init__(services, context, request)
        version = context.api_version
        self.announces_high_watermarks = False
        self.is_committed = request.isolation_level == READ_COMMITTED
        self.needs_v2 = version >= FIRST_WITH_V2_ALONE
        self._may_follow = version >= _FIRST_FROM_FOLLOWERS
        self._rack = request.rack_id if services.fetches.selects_by_rack else ""
        meters = services.quotas.meters
        if meters is not None:
            quota_bytes_max = int(min(meters.fetch_bytes_max(context), INT_MAX))
            self.limit = min(self.limit, quota_bytes_max)
            request.min_bytes = min(request.min_bytes, quota_bytes_max)

    def find(self, requested: RequestedPartition) -> Partition:
        if self._access is not None:
            self._check_access(self._access, requested.topic)
        return self._services.partitions.find(requested.topic, requested.partition.partition, self._may_follow)

    def _check_access(self, access: Access, topic: TopicKey) -> None:
        name = topic if isinstance(topic, str) else self._services.metadata.require_topic(topic).name
        if not (name in access.readable_topics or access.allows_on_topic(AclOperation.READ, name)):
            raise KafkaError("the topic may not be read", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def throttle_ms(self) -> int:
        meters = self._services.quotas.meters
        return 0 if meters is None else meters.fetch_throttle_ms(self._context, self.size)

    def count_sent(self, partition: Partition, size: int) -> None:
        partition.traffic.bytes_out += size

    def _read_partition(
        self, partition: Partition, requested: RequestedPartition, may_wait: bool
    ) -> tuple[PartitionData, Partition | None]:
        fetch, log = requested.partition, partition.log
        diverging = None
        if fetch.current_leader_epoch >= 0 or fetch.last_fetched_epoch >= 0:
            diverging = self._diverging(partition, fetch)
        if partition.followed is not None:
            partition.followed.check_read(fetch.fetch_offset)
        answer = PartitionData(
            fetch.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, records=b""
        )
        if not self.is_committed:
            answer.aborted_transactions = None
        if diverging is not None:
            self._report_divergence(answer, diverging)
        elif self._rack and (preferred := self._preferred_replica(partition, fetch)) != _LEADER_SERVES:
            answer.preferred_read_replica = preferred
            self.is_urgent = True
        else:
            upto = log.last_stable_offset if self.is_committed else log.high_watermark
            try:
                self._read_records(partition, fetch, answer, upto, may_wait)
            except OffsetTiered as error:
                read_later(self, ArchivedRead(requested, partition, answer, upto), error)
        return answer, partition

    def _preferred_replica(self, partition: Partition, fetch: FetchPartition) -> int:
        if partition.replication is None:
            return _LEADER_SERVES
        chosen = partition.replication.preferred_read_replica(fetch.fetch_offset, self._rack)
        if chosen is None:
            return _LEADER_SERVES
        broker = self._services.metadata.image.brokers.get(chosen)
        is_reached = broker is not None and self._context.listener in broker.listeners
        return chosen if is_reached else _LEADER_SERVES

    def _diverging(self, partition: Partition, fetch: FetchPartition) -> EpochEnd | None:
        """Return where a consumer's log diverges (KIP-595), or None."""
        if fetch.current_leader_epoch >= 0:
            partition.check_epoch(fetch.current_leader_epoch)
        if fetch.last_fetched_epoch < 0:
            return None
        epoch_end = EpochEnd(*partition.log.end_offset_for_epoch(fetch.last_fetched_epoch))
        if epoch_end.epoch < 0:
            raise KafkaError("the fetcher's epoch is unknown here", ErrorCode.OFFSET_OUT_OF_RANGE)
        agrees = epoch_end.epoch >= fetch.last_fetched_epoch and epoch_end.end_offset >= fetch.fetch_offset
        return None if agrees else epoch_end


class FollowerReader(FetchReader):
    """Reads up to the log end; each fetch reports what the follower has.

    `_throttled` counts bytes for throttled followers that are not in sync; they get none while the rate is exceeded.
    `_log_ends` has the partitions that were read, with their log ends at that time. The progress of the follower may
    complete operations that append to partitions which this pass has read. `_confirmed` has the partition of `confirm`.
    """

    __slots__ = (
        "_confirmed",
        "_is_exceeded",
        "_log_ends",
        "_replica",
        "_resumes",
        "_throttled",
    )
    fetcher = "follower"
    mark = Mark.LOG_END
    skips_empty_batches = False
    _replica: int
    _throttled: int
    _resumes: bool
    _log_ends: dict[Partition, int]
    _is_exceeded: bool
    _confirmed: list[RequestedPartition]

    def __init__(self, services: _Services, context: RequestContext, request: FetchRequest) -> None:
        super().__init__(services, context, request)
        self._confirmed = []
        self._replica = fetcher_of(request)
        self.announces_high_watermarks = services.fetches.selects_by_rack
        self.is_committed = self.needs_v2 = False

    def begin(self, resumes: bool = False) -> None:
        """Begin a pass; after a wait, logs do not diverge: such news would have been answered at once."""
        super().begin(resumes)
        self._resumes, self._confirmed = resumes, []
        self._log_ends = {}
        self._throttled = 0
        throttle = self._services.fetches.leader_throttle
        self._is_exceeded = not throttle.is_unlimited and throttle.is_exceeded(self._services.runtime.now_ms())

    def find(self, requested: RequestedPartition) -> Partition:
        if self._access is not None and not self._access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            raise KafkaError("the topic may not be read", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._services.partitions.find(requested.topic, requested.partition.partition, False)

    def find_for_wait(self, requested: RequestedPartition) -> Partition | None:
        partition = super().find_for_wait(requested)
        is_held_back = partition is not None and self._is_exceeded and self._is_throttled(partition)
        return None if is_held_back else partition

    def confirm(self, requested: RequestedPartition) -> Partition | None:
        """Note that the follower has all records of the only partition that a request reads; return it.

        Return None if there may be news for the follower: nothing was noted then, and `read` does both.
        """
        fetch, services = requested.partition, self._services
        if self.announces_high_watermarks or not services.fetches.leader_throttle.is_unlimited:
            return None
        try:
            partition = self.find(requested)
            replication, end = partition.replication, partition.log.log_end_offset
            if (
                replication is None
                or fetch.fetch_offset != end
                or replication.follower_fetched(self._progress(fetch)) is not None
            ):
                return None
        except KafkaError:
            return None
        partition.traffic.fetches += 1
        self._confirmed = [requested]
        self.partitions, self._log_ends = [partition], {partition: end}
        services.runtime.deferred_actions.run_early()
        return partition

    def read_news(self, requested: RequestedPartition) -> tuple[Partition, Buffer] | None:
        """Return the only partition that has news since `confirm`, and some kilobytes of its records.

        Return None if there may be more to answer: `begin` and `read` find it.
        """
        if self._confirmed != [requested] or not self._services.fetches.leader_throttle.is_unlimited:
            return None
        fetch, [partition] = requested.partition, self.partitions
        if (
            partition is None
            or partition.replication is None
            or fetch.current_leader_epoch != partition.leader_epoch
            or self._access is not None
        ):
            return None
        log = partition.log
        try:
            max_bytes = min(fetch.partition_max_bytes, self.limit)
            region = log.read(fetch.fetch_offset, max_bytes, upto=log.log_end_offset, may_wait=False)
        except (KafkaError, NotCached):
            return None
        if region is None or region.length > NEWS_BYTES_MAX or region.first_position >= 0:
            return None
        records = read_if_cached(region)
        if records is None:
            return None
        partition.traffic.fetches += 1
        partition.traffic.replication_bytes_out += region.length
        return partition, records

    def has_grown(self) -> bool:
        return any(partition.log.log_end_offset > end for partition, end in self._log_ends.items())

    def note_answer(self) -> None:
        if self._throttled:
            self._services.fetches.leader_throttle.record(self._throttled, self._services.runtime.now_ms())

    def complete_acknowledged(self) -> None:
        self._services.runtime.deferred_actions.run_early()

    def count_sent(self, partition: Partition, size: int) -> None:
        partition.traffic.replication_bytes_out += size

    def _read_partition(
        self, partition: Partition, requested: RequestedPartition, may_wait: bool
    ) -> tuple[PartitionData, Partition | None]:
        """Return an answer, and its partition unless it is held back: the throttle's rate is exceeded."""
        fetch, log = requested.partition, partition.log
        diverging = self._note_follower(partition, fetch)
        log_end = log.log_end_offset
        is_held_back = self._is_exceeded and self._is_throttled(partition)
        if not is_held_back:
            self._log_ends[partition] = log_end
        if self.announces_high_watermarks and 0 <= requested.sent_high_watermark < log.high_watermark:
            self.is_urgent = True
        answer = PartitionData(
            fetch.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, records=b""
        )
        answer.aborted_transactions = None
        if diverging is not None:
            self._report_divergence(answer, diverging)
        elif not is_held_back and fetch.fetch_offset != log_end:
            region = self._read_records(partition, fetch, answer, log_end, may_wait)
            if region is not None and self._is_throttled(partition):
                self._throttled += region.length
        return answer, None if is_held_back else partition

    def _is_throttled(self, partition: Partition) -> bool:
        if not partition.throttles_followers:
            return False
        replication = partition.replication
        return replication is not None and not replication.is_in_sync(self._replica)

    def _note_follower(self, partition: Partition, fetch: FetchPartition) -> EpochEnd | None:
        if partition.replication is None:
            detail = f"{partition.topic}-{partition.index} has no replica on broker {self._replica}"
            raise KafkaError(detail, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._resumes:
            partition.check_epoch(fetch.current_leader_epoch)
            return None
        return partition.replication.follower_fetched(self._progress(fetch))

    def _progress(self, fetch: FetchPartition) -> FollowerFetch:
        return FollowerFetch(
            self._replica,
            fetch.current_leader_epoch,
            fetch.fetch_offset,
            fetch.last_fetched_epoch,
            fetch.log_start_offset,
            self.request.replica_state.replica_epoch,
        )


def make_reader(services: _Services, context: RequestContext, request: FetchRequest) -> FetchReader:
    """Return the reader for a request's fetcher."""
    kind = FollowerReader if fetcher_of(request) > CONSUMER else ConsumerReader
    return kind(services, context, request)
