"""Files of transactions, checked by Kafka's own `kafka-dump-log`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.admin import TransactionState

from tests.clients.adapters.base import Client
from tests.clients.adapters.transactions import transactor
from tests.clients.admin import admin_client, create_topic, eventually
from tests.clients.test_dump_log import dump
from tests.conftest import make_broker
from tests.peers import available
from tests.support.brokers import KAFKA_RELEASES, Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
STATE_PARTITIONS = 5
CLOSED = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@pytest.fixture(scope="module")
def dumped(against: str, tmp_path_factory: pytest.TempPathFactory, client_named: Callable[[str], Client]) -> Path:
    """A copy of the files, under Kafka's names, after the broker was stopped in order."""
    if against not in ("", *KAFKA_RELEASES):
        pytest.skip("the files of a broker that runs already are not known")
    broker = make_broker(against, tmp_path_factory.mktemp("broker"), {})
    broker.start()
    try:
        _fill(broker.bootstrap, client_named("confluent"))
        assert broker.stop() == 0
    finally:
        broker.kill()
    return _copies(broker, tmp_path_factory.mktemp("copies"))


def _fill(bootstrap: str, client: Client) -> None:
    create_topic(bootstrap, "t")
    with (
        transactor(client, bootstrap, "ends") as ends,
        transactor(client, bootstrap, "aborts") as aborts,
        transactor(client, bootstrap, "stays") as stays,
    ):
        for producer, finish in ((ends, ends.commit), (aborts, aborts.abort), (ends, ends.commit)):
            producer.begin()
            producer.send("t", b"x")
            producer.send_offset("g", "t", 0, 5)
            finish()
            eventually(lambda: _has_open_ones(bootstrap), False)
        stays.begin()
        stays.send("t", b"x")


def _has_open_ones(bootstrap: str) -> bool:
    with admin_client(bootstrap) as admin:
        listed = [each.state for all in admin.list_transactions().values() for each in all]
    return any(state not in CLOSED for state in listed)


def _copies(broker: Broker, target: Path) -> Path:
    partitions = [("t", 0)] + [("__transaction_state", each) for each in range(STATE_PARTITIONS)]
    for topic, index in partitions:
        for file in broker.partition_dir(topic, index).iterdir():
            name = file.name.removesuffix(broker.segment_suffix)
            renamed = name + ".log" if name != file.name else name
            (target / f"{topic}-{index}").mkdir(exist_ok=True)
            shutil.copy(file, target / f"{topic}-{index}" / renamed)
    return target


def test_states_are_kept_in_kafkas_layout(dumped: Path) -> None:
    segments = [each for each in sorted(dumped.glob("__transaction_state-*/*.log")) if each.stat().st_size]
    text = dump(segments, "--transaction-log-decoder", "--print-data-log")
    assert "isvalid: false" not in text
    for name, states in {
        "ends": ["Empty", *["Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"] * 2],
        "aborts": ["Empty", "Ongoing", "Ongoing", "PrepareAbort", "CompleteAbort"],
        "stays": ["Empty", "Ongoing"],
    }.items():
        values = [
            line
            for line in text.splitlines()
            if f"transactional_id={name} " in line or f"transactionalId={name}" in line
        ]
        assert [re.search(r"state=(\w+)", line)[1] for line in values] == states, text  # type: ignore[index]


def test_markers_are_kafkas(dumped: Path) -> None:
    text = dump(sorted((dumped / "t-0").glob("*.log")), "--print-data-log")
    assert "isvalid: false" not in text
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", text) == [
        ("COMMIT", "0"),
        ("ABORT", "0"),
        ("COMMIT", "0"),
    ]
    assert re.findall(r"isTransactional: (\w+) isControl: (\w+)", text) == [
        ("true", each) for each in ("false", "true") * 3 + ("false",)
    ]


def test_the_index_of_aborted_transactions_is_kafkas(dumped: Path) -> None:
    text = dump(sorted((dumped / "t-0").glob("*.txnindex")))
    found = re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text)
    assert found == [("2", "3", "4")]


def test_snapshots_have_open_transactions(dumped: Path) -> None:
    snapshots = sorted((dumped / "t-0").glob("*.snapshot"))
    text = dump(snapshots[-1:])
    found = re.findall(r"coordinatorEpoch: (-?\d+) currentTxnFirstOffset: OptionalLong(\S+)", text)
    assert found == [("0", ".empty"), ("0", ".empty"), ("-1", "[6]")]
