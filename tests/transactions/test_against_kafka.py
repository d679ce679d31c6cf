"""The coordinator against Apache Kafka 3.9: the same answers to the same requests, and each reads the other's log.

Kafka does two things that are not done here. A producer that was fenced and names the pair it had makes Kafka abort
the transaction of its successor, before it gets PRODUCER_FENCED: that is never asked of Kafka. And
when the last epoch of an id is taken and another pair than the present one is named, Kafka fails with
UNKNOWN_SERVER_ERROR; here the producer is fenced, or has its answer again, as with any other epoch.
"""

from __future__ import annotations

import base64
import random
import re
import time
import zlib
from functools import cache
from pathlib import Path

import attrs
import pytest

from pylogbroker.coordinators import PartitionReplay
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build, entries
from pylogbroker.transactions import TransactionSettings, TransactionState, record_schema
from pylogbroker.transactions.metadata import TransactionMetadata
from pylogbroker.transactions.shard import ReplayedTransactions
from tests.peers import available
from tests.peers.kafka import KafkaBroker
from tests.support.oracle_answers import OracleAnswers
from tests.transactions.harness import NO_PAIR, TIMEOUT, Harness
from tests.transactions.kafka_coordinator import KafkaCoordinator
from tests.transactions.recorded import Exchange, Recorded, Recording

NAMES = [f"name-{number}" for number in range(6)]
SETTINGS = {"transaction.state.log.num.partitions": "1", "num.partitions": "2"}
STEPS = 600
SEED = 20
UNKNOWN = 999_999  # a producer id that nobody was given
LINE = re.compile(
    r"transactionalId=(\S+) payload: producerId:(\d+),producerEpoch:(\d+),state=(\w+),partitions=\[(.*)\],"
    r"txnLastUpdateTimestamp=\d+,txnTimeoutMs=(\d+)$",
    re.MULTILINE,
)
Pair = tuple[int, int]


@attrs.define
class Both:
    """Kafka and a table, side by side. What a pair of the table's is in Kafka is learnt from what both give."""

    kafka: KafkaCoordinator | Recording | Recorded
    harness: Harness
    ids: dict[int, int] = attrs.field(factory=lambda: {-1: -1, UNKNOWN: UNKNOWN})
    pairs: dict[str, list[Pair]] = attrs.field(factory=lambda: {name: [(UNKNOWN, 0)] for name in NAMES})

    def theirs(self, pair: Pair) -> Pair:
        return self.ids[pair[0]], pair[1]

    def init(self, name: str, pair: Pair) -> tuple[object, object]:
        result = self.harness.init(name, pair)
        if result.error is ErrorCode.PRODUCER_FENCED and self.harness.state(name) == "Ongoing":
            return None, None
        if result.error is ErrorCode.CONCURRENT_TRANSACTIONS:  # aborted by now
            result = self.harness.init(name, pair)
        error, given = self.kafka.init(name, self.theirs(pair), TIMEOUT)
        ours = (result.producer_id, result.producer_epoch)
        self.ids.setdefault(ours[0], given[0])
        if not error:
            self.pairs[name].append(ours)
        return (error, given), (result.error, self.theirs(ours))

    def add(self, name: str, pair: Pair, partition: tuple[str, int]) -> tuple[object, object]:
        return self.kafka.add(name, self.theirs(pair), [partition]), self.harness.add(pair, [partition], name)

    def end(self, name: str, pair: Pair, committed: bool) -> tuple[object, object]:
        return self.kafka.end(name, self.theirs(pair), committed), self.harness.end(pair, committed, name)

    def verify(self, name: str, pair: Pair, partition: tuple[str, int]) -> tuple[object, object]:
        ours = self.harness.coordinator.verify(name, *pair, [partition])[partition]
        return self.kafka.verify(name, self.theirs(pair), partition), ours

    def one_more(self, chance: random.Random) -> tuple[object, object]:
        """Something that a producer might do, mostly with a pair that it has or had."""
        name = chance.choice(NAMES)
        known = self.pairs[name]
        pair = known[-1 - min(chance.choice([0, 0, 0, 0, 1, 2]), len(known) - 1)]
        pair = chance.choice([pair] * 20 + [(pair[0], pair[1] + 1), (UNKNOWN, pair[1])])
        partition = ("t", chance.randrange(2))
        match chance.choice(["init", "init again", "add", "add", "add", "end", "end", "verify"]):
            case "init":
                return self.init(name, NO_PAIR)
            case "init again":
                return self.init(name, pair)
            case "add":
                return self.add(name, pair, partition)
            case "end":
                return self.end(name, pair, chance.random() < 0.5)
            case _:
                return self.verify(name, pair, partition)


History = tuple[Both, list[tuple[object, object]], bytes]


@pytest.fixture(scope="module")
def history(oracle: OracleAnswers, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Answers of both to the same requests, and Kafka's log at the end."""
    live = cache(lambda: history_of_kafka(tmp_path_factory.mktemp("kafka")))
    question = f"{STEPS} steps of seed {SEED}"
    exchanges = oracle.answer("transactions", question, lambda: live()[0])
    log = zlib.decompress(base64.b64decode(oracle.sample("transactions-log", question, lambda: live()[1])))
    both = Both(Recorded(exchanges), Harness(TransactionSettings(partitions=1)))
    return both, answers_of(both), log


def history_of_kafka(directory: Path) -> tuple[list[Exchange], str]:
    """Ask Kafka; return requests and answers, and its log, compressed."""
    with KafkaBroker(directory, SETTINGS) as kafka:
        coordinator = KafkaCoordinator(kafka.port)
        coordinator.create("t")
        coordinator.find("x")
        recording = Recording(coordinator)
        answers_of(Both(recording, Harness(TransactionSettings(partitions=1))))
        coordinator.close()
    (segment,) = (kafka.data / "__transaction_state-0").glob("*.log")
    return recording.exchanges, base64.b64encode(zlib.compress(segment.read_bytes())).decode()


def answers_of(both: Both) -> list[tuple[object, object]]:
    chance = random.Random(SEED)
    return [both.one_more(chance) for _ in range(STEPS)]


def test_answers_match_kafkas(history: History) -> None:
    _, answers, _ = history
    assert [theirs for theirs, _ in answers] == [ours for _, ours in answers]
    errors = {answer[0] if isinstance(answer, tuple) else answer for _, answer in answers}
    assert errors - {None} == {
        ErrorCode.NONE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_kafkas_transaction_log_is_read(history: History) -> None:
    both, _, log = history
    replay = PartitionReplay(0, 0, ReplayedTransactions())
    replay.replay(entries(log))
    assert replay.problems == []
    for name in NAMES:
        theirs, ours = replay.state.metadata[name], both.harness.coordinator.describe(name)
        assert (theirs.producer_id, theirs.producer_epoch) == both.theirs((ours.producer_id, ours.producer_epoch))
        assert (theirs.state.label, tuple(sorted(theirs.partitions))) == (ours.state, ours.partitions)
        assert (theirs.timeout_ms, theirs.start_ms == -1) == (ours.timeout_ms, ours.start_ms == -1)


def test_we_would_have_written_the_same_bytes(history: History) -> None:
    _, _, log = history
    records = [record for entry in entries(log) for record in entry.records()]
    assert len(records) > STEPS / 2
    for record in records:
        assert record.key is not None
        assert record.value is not None
        name = record_schema.decode_key(record.key)
        assert name is not None
        assert record_schema.encode_key(name) == record.key
        assert _sorted(record_schema.encode_value(record_schema.decode_value(record.value))) == _sorted(record.value)


def _sorted(value: bytes) -> tuple[int, bytes]:
    """Kafka writes the partitions of a topic in the order of a hash table, so without regard to the order of bytes."""
    return len(value), bytes(sorted(value))


def test_both_have_written_the_same_records(history: History, tmp_path: Path, oracle: OracleAnswers) -> None:
    """Decoded by Kafka's log dump tool, without the times."""
    both, _, log = history
    theirs = dumped(oracle, "transactions-log-dump", log, tmp_path, is_sample=True)
    ours = dumped(oracle, "transactions-log-of-ours-dump", b"".join(both.harness.log_port.batches[0]), tmp_path)
    assert len(theirs) > STEPS / 2
    for name in NAMES:
        expected = [fields for key, *fields in theirs if key == name]
        assert [[str(both.ids[int(number)]), *rest] for key, number, *rest in ours if key == name] == expected


def dumped(
    oracle: OracleAnswers, name: str, log: bytes, directory: Path, is_sample: bool = False
) -> list[tuple[str, ...]]:
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(log)
    output = oracle.dump_of(name, directory, "--transaction-log-decoder", is_sample=is_sample)
    return [(*fields, timeout, *sorted(partitions.split(","))) for *fields, partitions, timeout in LINE.findall(output)]


LAST_EPOCH = 32_766
STORED = {
    "last": TransactionMetadata(5_001, LAST_EPOCH, timeout_ms=TIMEOUT),
    "last, anonymous": TransactionMetadata(5_002, LAST_EPOCH, timeout_ms=TIMEOUT),
    "last but one": TransactionMetadata(5_003, LAST_EPOCH - 1, timeout_ms=TIMEOUT),
    "last but one, named": TransactionMetadata(5_004, LAST_EPOCH - 1, timeout_ms=TIMEOUT),
    "going on": TransactionMetadata(5_005, 3, TransactionState.ONGOING, TIMEOUT, frozenset({("t", 0), ("t", 1)})),
    "to be committed": TransactionMetadata(
        5_006, 3, TransactionState.PREPARE_COMMIT, TIMEOUT, frozenset({("t", 0), ("t", 1)})
    ),
    "to be aborted": TransactionMetadata(5_007, 3, TransactionState.PREPARE_ABORT, TIMEOUT, frozenset({("t", 1)})),
    "committed": TransactionMetadata(5_008, 3, TransactionState.COMPLETE_COMMIT, TIMEOUT),
    "aborted": TransactionMetadata(5_009, 3, TransactionState.COMPLETE_ABORT, TIMEOUT),
}


@pytest.fixture
def kafka(tmp_path: Path) -> KafkaBroker:
    """A broker that has its topics, and has been stopped."""
    with KafkaBroker(tmp_path, SETTINGS) as kafka:
        coordinator = KafkaCoordinator(kafka.port)
        coordinator.create("t")
        coordinator.find("x")
        coordinator.close()
    return kafka


def both_on_a_log_of_ours(broker: KafkaBroker) -> tuple[Both, KafkaCoordinator]:
    """Both load the records stored above."""
    now_ms = int(time.time() * 1000)
    records = [
        Record(number, now_ms, record_schema.encode_key(name), record_schema.encode_value(_at(metadata, now_ms)))
        for number, (name, metadata) in enumerate(STORED.items())
    ]
    log = build(records)
    (broker.data / ".kafka_cleanshutdown").unlink()
    for old in (broker.data / "__transaction_state-0").iterdir():
        if old.suffix != ".metadata":
            old.unlink()
    (broker.data / "__transaction_state-0" / "00000000000000000000.log").write_bytes(log)
    harness = Harness(TransactionSettings(partitions=1), loaded=False)
    harness.now = now_ms
    assert harness.load(0, entries(log)).problems == []
    coordinator = KafkaCoordinator(broker.start().port)
    both = Both(coordinator, harness)
    for metadata in STORED.values():
        both.ids[metadata.producer_id] = metadata.producer_id
    both.pairs = {name: [(metadata.producer_id, metadata.producer_epoch)] for name, metadata in STORED.items()}
    return both, coordinator


def _at(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    begun = metadata.state is not TransactionState.EMPTY
    return attrs.evolve(metadata, start_ms=now_ms if begun else -1, updated_ms=now_ms)


@pytest.mark.skipif(not available(), reason="Apache Kafka needs Java and Maven")
def test_kafka_goes_on_with_a_log_of_ours(kafka: KafkaBroker) -> None:
    """The last epochs, and every state after a restart."""
    both, coordinator = both_on_a_log_of_ours(kafka)
    answers = []
    try:
        for name, pairs in both.pairs.items():
            first = pairs[0]
            if name in ("last, anonymous", "last but one"):
                answers += [both.init(name, NO_PAIR), both.init(name, first)]
            elif not name.startswith("last"):
                answers += [both.end(name, first, committed=True), both.end(name, first, committed=False)]
            answers += [both.init(name, first), both.init(name, first), both.init(name, pairs[-1])]
            answers += [both.add(name, pairs[-1], ("t", 0)), both.init(name, NO_PAIR)]
            answers += [both.add(name, pairs[-1], ("t", 0)), both.end(name, pairs[-1], committed=True)]
    finally:
        coordinator.close()
        kafka.stop()
    assert [theirs for theirs, ours in answers if theirs != ours] == [(ErrorCode.UNKNOWN_SERVER_ERROR, NO_PAIR)] * 4
    assert [ours for theirs, ours in answers if theirs != ours] == [
        *[(ErrorCode.PRODUCER_FENCED, NO_PAIR)] * 3,
        (ErrorCode.NONE, (5_004, LAST_EPOCH)),
    ]
