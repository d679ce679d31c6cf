"""Harness of a transaction coordinator: its own clock, a log port that waits or fails, and short requests."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import count

from pylogbroker.coordinators import AppendCallback, ProducerIdAndEpoch
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build, entries
from pylogbroker.transactions import (
    EndResult,
    EndTransaction,
    InitProducerId,
    InitResult,
    MarkersCallback,
    ProducerIdCallback,
    TransactionCoordinator,
    TransactionMarker,
    TransactionSettings,
    TransactionTimeout,
    record_schema,
)
from pylogbroker.transactions.metadata import TransactionMetadata
from pylogbroker.transactions.shard import ReplayedTransactions
from pylogbroker.transactions.transaction import TransactionShard
from tests.coordinators.harness import Answer, RuntimeHarness

SETTINGS = TransactionSettings(partitions=3)
TIMEOUT = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
NO_PAIR = (-1, -1)


Work = Callable[[], Callable[[], None]]  # does it, and returns its report


class FakeLogPort:
    """Keeps records and markers in lists. `hold` delays everything until `release`; the errors make things fail.

    `history` is what was stored and written, in order; `lies` makes what fails be kept all the same.
    """

    def __init__(self, clock: Callable[[], int], ids: Iterator[int]) -> None:
        self.batches: dict[int, list[bytes]] = defaultdict(list)
        self.records: dict[int, list[Record]] = defaultdict(list)
        self.markers: list[TransactionMarker] = []  # asked for
        self.history: list[Record | tuple[tuple[str, int], TransactionMarker]] = []
        self.error = ErrorCode.NONE
        self.lies = False
        self.id_error = ErrorCode.NONE
        self.marker_errors: dict[tuple[str, int], ErrorCode] = {}
        self.held: list[Work] | None = None
        self.transaction_version = 0
        self.synced: dict[int, int] = defaultdict(int)  # records by partition
        self._clock = clock
        self._ids = ids

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        def work() -> Callable[[], None]:
            error = self.error
            if self.lies or not error:
                self._keep(partition, records)
                if on_disk:
                    self.synced[partition] = len(self.records[partition])
            return lambda: done(error, self._clock())

        self._soon(work)

    def allocate_producer_id(self, done: ProducerIdCallback) -> None:
        def work() -> Callable[[], None]:
            error = self.id_error
            producer_id = -1 if error else next(self._ids)
            return lambda: done(error, producer_id, self._clock())

        self._soon(work)

    def write_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        def work() -> Callable[[], None]:
            errors = {partition: self.marker_errors.get(partition, ErrorCode.NONE) for partition in marker.partitions}
            self.history += [(partition, marker) for partition, error in errors.items() if not error]
            return lambda: done(errors, self._clock())

        self.markers.append(marker)
        self._soon(work)

    @property
    def written(self) -> list[tuple[tuple[str, int], TransactionMarker]]:
        return [event for event in self.history if isinstance(event, tuple)]

    def _keep(self, partition: int, records: Collection[Record]) -> None:
        base = len(self.records[partition])
        stored = [Record(base + index, each.timestamp, each.key, each.value) for index, each in enumerate(records)]
        self.records[partition] += stored
        self.history += stored
        self.batches[partition].append(build(stored, base_offset=base))

    def _soon(self, work: Work) -> None:
        if self.held is None:
            work()()
        else:
            self.held.append(work)

    def hold(self) -> None:
        self.held = []

    def step(self, report: bool = True) -> None:
        """Do the first of what is held back, and report it or die before that."""
        assert self.held
        report_stored = self.held.pop(0)()
        if report:
            report_stored()

    def release(self) -> None:
        while self.held:
            self.step()
        self.held = None


class Harness(RuntimeHarness[ReplayedTransactions, TransactionShard]):
    """A coordinator of all partitions, and the time."""

    def __init__(
        self, settings: TransactionSettings = SETTINGS, loaded: bool = True, ids: Iterator[int] | None = None
    ) -> None:
        self.ids = count(1_000) if ids is None else ids
        self.log_port = FakeLogPort(lambda: self.now, self.ids)
        self.woken: list[int] = []
        self.timed_out: list[TransactionTimeout] = []
        self.coordinator = TransactionCoordinator(settings, self.log_port, self.log_port, self.timed_out.append)
        super().__init__(self.coordinator.runtime)
        self.runtime.watch_deadlines(self.woken.append)
        if loaded:
            self.load_all()

    def restarted(self, coordinator_epoch: int = 1) -> "Harness":
        """Another coordinator that has loaded what this one has stored, and goes on with its logs."""
        other = Harness(self.coordinator.settings, loaded=False, ids=self.ids)
        other.now = self.now
        other.log_port.records = self.log_port.records
        other.log_port.batches = self.log_port.batches
        other.log_port.history = self.log_port.history
        other.log_port.marker_errors = self.log_port.marker_errors
        other.log_port.transaction_version = self.log_port.transaction_version
        for partition in range(self.coordinator.settings.partitions):
            log = b"".join(self.log_port.batches[partition])
            assert not other.load(partition, entries(log), coordinator_epoch).problems
        return other

    def log(self, name: str = "x") -> list[Record]:
        return self.log_port.records[self.coordinator.partition_for(name)]

    def ask_init(
        self, name: str = "x", pair: tuple[int, int] = NO_PAIR, timeout_ms: int = TIMEOUT
    ) -> Answer[InitResult]:
        answer: Answer[InitResult] = Answer()
        self.coordinator.init_producer_id(InitProducerId(name, timeout_ms, *pair), answer, self.now)
        return answer

    def init(self, name: str = "x", pair: tuple[int, int] = NO_PAIR, timeout_ms: int = TIMEOUT) -> InitResult:
        return self.ask_init(name, pair, timeout_ms).value

    def pair(self, name: str = "x") -> tuple[int, int]:
        """A new producer's id and epoch."""
        result = self.init(name)
        assert result.error is ErrorCode.NONE
        return result.producer_id, result.producer_epoch

    def ask_add(
        self,
        pair: tuple[int, int],
        partitions: Collection[tuple[str, int]] = (T0,),
        name: str = "x",
        client_version: int = 0,
    ) -> Answer[ErrorCode]:
        answer: Answer[ErrorCode] = Answer()
        self.coordinator.add_partitions(name, *pair, partitions, answer, self.now, client_version)
        return answer

    def add(self, pair: tuple[int, int], partitions: Collection[tuple[str, int]] = (T0,), name: str = "x") -> ErrorCode:
        return self.ask_add(pair, partitions, name).value

    def ask_end(self, pair: tuple[int, int], committed: bool = True, name: str = "x") -> Answer[ErrorCode]:
        answer: Answer[ErrorCode] = Answer()
        self.coordinator.end(name, *pair, committed, answer, self.now)
        return answer

    def end(self, pair: tuple[int, int], committed: bool = True, name: str = "x") -> ErrorCode:
        return self.ask_end(pair, committed, name).value

    def ask_end_for_next(self, pair: tuple[int, int], committed: bool = True, name: str = "x") -> Answer[EndResult]:
        answer: Answer[EndResult] = Answer()
        self.coordinator.end_for_next(EndTransaction(name, *pair, committed), answer, self.now)
        return answer

    def end_for_next(
        self, pair: tuple[int, int], committed: bool = True, name: str = "x"
    ) -> ErrorCode | tuple[int, int]:
        """End a transaction as EndTxn 5; return the error, or the pair of the next one."""
        result = self.ask_end_for_next(pair, committed, name).value
        return result.error or (result.producer_id, result.producer_epoch)

    def state(self, name: str = "x") -> str:
        return self.coordinator.describe(name).state

    def now_has(self, name: str = "x") -> tuple[int, int]:
        """The id and epoch that are in force."""
        described = self.coordinator.describe(name)
        return described.producer_id, described.producer_epoch

    def in_state(self, label: str, name: str = "x") -> tuple[int, int]:
        """Bring a transactional id into a state; what is pending stays so, since the store is held back."""
        pair = self.pair(name)
        if label == "Empty":
            return pair
        assert self.add(pair, (T0, U0), name) is ErrorCode.NONE
        if label == "Ongoing":
            return pair
        if label.startswith("Prepare"):
            self.log_port.marker_errors = dict.fromkeys((T0, U0), ErrorCode.NOT_ENOUGH_REPLICAS)
        assert self.end(pair, label.endswith("Commit"), name) is ErrorCode.NONE
        assert self.state(name) == label
        return pair


def harness_with_epoch(epoch: int, producer_id: int = 7) -> Harness:
    """A transactional id `x` between transactions, at some epoch: as a log has it."""
    harness = Harness()
    partition = harness.coordinator.partition_for("x")
    metadata = TransactionMetadata(producer_id, epoch, timeout_ms=TIMEOUT, updated_ms=harness.now)
    record = Record(0, harness.now, record_schema.encode_key("x"), record_schema.encode_value(metadata))
    harness.log_port.append(partition, [record], lambda error, now_ms: None)
    return harness.restarted()
