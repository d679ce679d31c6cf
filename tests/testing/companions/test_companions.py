"""Kafka Streams and Kafka Connect on a broker for tests; with `--thorough` alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.testing import Broker
from pylogbroker.testing.child_process import ControlledProcess
from tests.peers.java import Program
from tests.support.budget import Budget
from tests.support.waiting import wait_until
from tests.testing.companions.connect import ConnectWorker

WORD_COUNT = Program(Path(__file__).parent / "WordCount.java", "companions-3.9")
WORDS = [f"word {number % 7}" for number in range(500)]


@pytest.fixture
def broker(budget: Budget) -> Iterator[Broker]:
    if not budget.thorough:
        pytest.skip(f"{ControlledProcess.__name__}es of Java take long: --thorough")
    with Broker(process=True) as broker:
        yield broker


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams(broker: Broker, tmp_path: Path, guarantee: str) -> None:
    words, counts = broker.create_topic("words", 3), broker.create_topic("counts", 3)
    for start in range(0, len(WORDS), 100):
        broker.produce(words, *WORDS[start : start + 100])
    expected = {word.encode(): b"%d" % count for word, count in Counter(WORDS).items()}

    def found() -> dict[bytes, bytes]:
        records = broker.records(counts, isolation_level="read_committed")
        return {each.key: each.value for each in records}

    with WORD_COUNT.start(broker.bootstrap, guarantee, words, counts, str(tmp_path)) as process:
        try:
            wait_until(lambda: found() == expected or process.poll() is not None, what=lambda: "counts")
            assert found() == expected
            assert process.poll() is None
            broker.produce(words, *WORDS[:70])
            last = {word.encode(): b"%d" % count for word, count in Counter(WORDS + WORDS[:70]).items()}
            wait_until(lambda: found() == last, what=lambda: "later counts")
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(300) == 0
        finally:
            process.kill()
    internal = {name.rpartition("-")[2] for name in broker.topics if name.startswith(f"{guarantee}-")}
    assert internal == {"changelog", "repartition"}
    has_transactions = any(api in {each.api for each in broker.requests} for api in ("TxnOffsetCommit", "EndTxn"))
    assert has_transactions == (guarantee == "exactly_once_v2")


def test_connect(broker: Broker, tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    lines = [f"line {number}" for number in range(500)]
    source.write_text("".join(f"{line}\n" for line in lines))
    with ConnectWorker(tmp_path / "connect", {"bootstrap.servers": broker.bootstrap}) as worker:
        worker.create(
            "reader",
            connector_class="FileStreamSource",
            tasks_max="1",
            file=str(source),
            topic="lines",
            exactly_once_support="required",
        )
        worker.create(
            "writer",
            connector_class="FileStreamSink",
            tasks_max="1",
            file=str(sink),
            topics="lines",
            consumer_override_isolation_level="read_committed",
        )
        wait_until(lambda: sink.exists() and sink.read_text() == source.read_text(), what=lambda: "the sink's file")
        assert (worker.states("reader"), worker.states("writer")) == (["RUNNING"], ["RUNNING"])
    records = broker.records("lines", isolation_level="read_committed")
    assert [each.value for each in records if each.value] == [line.encode() for line in lines]
