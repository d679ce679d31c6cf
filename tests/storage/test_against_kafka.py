"""Kafka's own DumpLogSegments on the files of a log: entries, both indexes and producer snapshots are as it expects."""

from __future__ import annotations

import base64
import re
import shutil
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest

from pylogbroker.records import end_marker
from pylogbroker.storage import LogConfig, Origin, ProducerStateEntry
from pylogbroker.storage.log import producer_snapshots
from tests.storage.support import NOW, batch, messages, open_log, reopen
from tests.support.oracle_answers import OracleAnswers

LOG_WITH_TRANSACTIONS = zlib.decompress(
    base64.b64decode(
        "eNqNWAlsVGUQ/ndpSxdohVKgFGopthy9aPdqkdqVq5B4oEEiCBpQxBJgQaBIwmVECkTDUUq7hdYGCSYEg2DFCKHEUmJIvFI0RotnODxS"
        "0ag1BITa3e7/zcx7r9v+SffbPN5+O9+8mW+Gzcszn9zlK19Q4RNVrujcH3yx101Ni1MDu67YDt1q2reaMHTs+IAteJstal0eLoDlkydS"
        "NgmWZsLQ6WNiyVfsC7pYXpu9OVWw3CA0HM3iVOwLwiy7Kg5zlsrBhJyBsbiQoM6/KSGWjriomSqPsTxKqE9H5wn+86jOl9jgmwEyyGjE"
        "tClldquIaR4hO3YWk0dfjAHLW+qRk4KljJCdPozFqy/27fwrDrF8f3Z1K5IQ/PQejR3iBP85KaRq1fJFS/0F+jOxyNGr7RUPiRzVE3aX"
        "I2XIkQPqriQ37hXqGgjZiWLqJuqL/Tr/fCGWd6K+9Ql1n2s0q0sOvsSH1OWjqPuD6t+aOcMFVYvGyFSo7KDUSSGq3PafAkLbF4SoxvC7"
        "hOBLzLp8lHYcaN7+YFe2oLlByGhsnAa1HU80x2IKOc3+GELW84LGrWnuQX5u+zc+zPOzP0Vj5Px4VJ6VT61d71/qX/z8+iDdaFPDR7Pq"
        "Cx0zQ75XeF1l+M1A6N4Tc2ac0F1GyNJn57rRQINAs7h03XVBc4HQEDFo0D0JoNk96JyIpqqSkEXTh9MUaprBaMLitPdP8yasOkGoCXpq"
        "wkQEdbp8038iqGZCZuS8NJxonSEUVOs84Z5VvxJqgp6CGopCiys9sJUXWtUtjRELzYkOGgZ9/3zXfknou03ISp+XgBMdlAR9IwJ37nJ9"
        "1UMJNUFP02E49NVVX2ji+qrHa4ysDyMiGfqGnGk7xvVVZxGy5yf0ocRHgCYudXmmoHmOkKWJ16YTJT4SNJ9On7lB0OwkZNEIGpR4CrK9"
        "L/3OdpHtw4S9nTP3IqhVa7ddFkE1EjJtUSwoF0o8FTRbnrmaJmi+JGQ03AVc+dautca/aNWa0pVrg/efVzbbU4kt4QDk2NPzUlkMRodp"
        "AujRgVkRThFPjl3cHc9HArtbmZY49qmuNY/dbbPUyN19iYnRxmxNWX0LIh6iujsOVjchUzPH4XKKCbE3/GYUOrHUO/q86MQ2jRE70QWn"
        "SUN9NL+RVSHq429CdmJ4fcBpRoNmxO4qsTkEBhKyFIpqxay+D8JWfHXxZy4skKExsjBYTDoicm2L/0xElEnIikoIg8VkgCZ9UOJZQeMj"
        "ZMJE/8BixsAbxl69u4x7Q+BJwu7Gn9GJxyKo9uLdwrACywhZUEIbltBxoPHfbPQJmnJCdvoyGjcsZjxofjw7Xqx7gcOErDn4s3dj+cxE"
        "igb4X3lMpOg8YXfD2JiiLFRSfWbdVVFJv2mMWElu1HY29M05urdF6GsjZNkWaUJt50BfWcX2JK7vwDeE3Q1j43jIRVD2htgjPKgDCwhZ"
        "eYugUN4TQHOpvERoO9ifkNHEcpoCZWlZhvGQVvOnwzQeotmWqvh0ZI9D7pR6GVV8MzPcbRfcqXLYKb42yGGutwBlGPfd27L18m83fEOO"
        "dlkzh7tQWHuN/l8CquTaySvv8io5mEHYW6PIx+N9+kT7S+LxFhGyRHP3csMonGimHw55GngzHZynMWIzeWAWLkT0ob0tUUQ0n5BFxK3L"
        "A7NwI6LyWQ2Pi4g2aowcESagBxE11S/MERFtIWSP18Ejgkt48eDmlF5cKR7cm4S9be8CBPX711MqRVCnCNnhfenBECwETXT7tdmC5mNC"
        "1gaCBi4xEdleOLLGLbJ9XWPkbBfwH/G6qJoX3PhIUP2iMTIV9u1JyHhTVusVkfE2wt7u20VIVbZty7M8VbUOQsP6plPlRX0/AH07NxxP"
        "4vpqnRoj6vOixosR0fbLJZNFRF5C1irc4r2obx9oGvfcTBA0swhZfffjNC5laV0Giw8kj3vRZPF92ZqhLPaJNNNSoLcJxee9pcXHsvml"
        "DINKj0c5kPUkV4aRHdqnLDVyi59msvhc1vdcjVnfJG3G5m/xuvkQsM8Nv3kQlf26949sXtm1ZYS9rezJKID5Henih6DaHYTsUXAT8MJL"
        "poBm4YyXjwuaekKWo/6cBl4yFQ2StyIpQzTIKY2RGwReMg1pun3U5xJpOkfY29+UpkPfsJx+7wl9LYSsqoQBYFaWIKiLLQnih67avwh7"
        "+5vSDLBtHTNhDGerW0LY41SxrDxDD9+cu/mIqYcdzB2VhQ0WmQxIO5cyWJReR6TPaINSBidi19lk0iNNGWZX6LqlRt7DO0wdWsT6jcdH"
        "S2EhKzV5h81wpcQQNTmFjz3LUKH9D/oN3Ko="
    )
)
"""The files of a partition that Kafka 3.9.2 wrote, each behind 20 bytes of offset, 10 of suffix and 4 of length.

Four producers of librdkafka 2.16 wrote in transactions, by turns, and one without; most transactions were aborted, and
one is open: the log ends at 72 and is stable up to 69.
"""


def dumped(oracle: OracleAnswers, name: str, log_path: str, directory: Path, *options: str) -> str:
    """Return what the tool prints about all files; it looks at their names, so they get Kafka's."""
    directory.mkdir()
    for path in sorted(Path(log_path).iterdir()):
        shutil.copy(path, directory / path.name.replace(".kafka", ".log"))
    for path in directory.glob("*.log"):
        path.with_suffix(".index").touch()  # Kafka makes this file before there are entries
    return oracle.dump_of(name, directory, *options)


def test_files_are_kafkas(tmp_path: Path, oracle: OracleAnswers) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=3000, index_interval_bytes=500))
    for number in range(60):
        sent = batch([b"%d" % number, b"y" * 30], [NOW + number % 40, NOW], producer=(7, 1, 2 * number))
        log.append(sent, NOW, leader_epoch=number // 20)
    log.close()
    said = dumped(oracle, "log-files", log.path, tmp_path / "events-0")
    assert said.count("isvalid: true") == 60
    assert "isvalid: false" not in said
    assert "mismatch" not in said.lower()
    assert "not found" not in said.lower()
    assert re.findall(r"partitionLeaderEpoch: (\d+)", said) == ["0"] * 20 + ["1"] * 20 + ["2"] * 20
    assert len(re.findall(r"^offset: \d+ position: \d+$", said, re.MULTILINE)) == sum(
        len(segment.offset_index) for segment in log.segments
    )
    last_snapshot = said[said.rindex("producerId: 7 producerEpoch: 1 coordinatorEpoch") :]
    assert "firstSequence: 118 lastSequence: 119 lastOffset: 119 offsetDelta: 1" in last_snapshot


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_kafkas(tmp_path: Path, magic: int, oracle: OracleAnswers) -> None:
    log = open_log(tmp_path / "events_0", LogConfig(magic=magic, index_interval_bytes=100))
    for number in range(12):
        log.append(messages([b"%d" % number], magic, NOW + number), NOW)
    log.close()
    said = dumped(oracle, f"log-files-magic-{magic}", log.path, tmp_path / "events-0")
    assert len(re.findall(rf"magic: {magic}", said)) == 12
    assert "isvalid: false" not in said
    assert "mismatch" not in said.lower()


def test_transactions_are_kafkas(tmp_path: Path, oracle: OracleAnswers) -> None:
    log = open_log(tmp_path / "events_0")
    for producer_id in (7, 8, 9):
        log.append(batch(producer=(producer_id, 1, 0), transactional=True), NOW)
    for committed, producer_id in ((False, 8), (True, 9), (False, 7)):
        log.append(end_marker(committed, 5, producer_id, 1, NOW), NOW, origin=Origin.COORDINATOR)
        log.append(batch(producer=(producer_id, 1, 1), transactional=True), NOW)
    log.close()
    said = dumped(oracle, "log-files-transactions", log.path, tmp_path / "events-0", "--print-data-log")
    assert "isvalid: false" not in said
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", said) == [
        ("ABORT", "5"), ("COMMIT", "5"), ("ABORT", "5")
    ]  # fmt: skip
    aborted = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", said)
    assert aborted == [("8", "1", "3", "0"), ("7", "0", "7", "4")]
    snapshot = r"producerId: (\d+) producerEpoch: 1 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong\[(\d+)\]"
    assert re.findall(snapshot, said) == [("7", "8"), ("8", "4"), ("9", "6")]


def kafkas_files() -> dict[str, dict[int, bytes]]:
    """Return Kafka's files, by suffix and offset."""
    files: dict[str, dict[int, bytes]] = {}
    position = 0
    while position < len(LOG_WITH_TRANSACTIONS):
        offset, suffix, length = struct.unpack_from(">20s10sI", LOG_WITH_TRANSACTIONS, position)
        position += 34 + length
        content = LOG_WITH_TRANSACTIONS[position - length : position]
        files.setdefault(suffix.rstrip(b"\0").decode(), {})[int(offset)] = content
    return files


def by_id(states: Iterable[ProducerStateEntry]) -> list[ProducerStateEntry]:
    """The states with their last batches, which are what Kafka keeps."""
    known = [attrs.evolve(state, batches=state.batches[-1:]) for state in states]
    return sorted(known, key=lambda state: state.producer_id)


def test_transaction_state_and_indexes_match_kafkas(tmp_path: Path) -> None:
    theirs = kafkas_files()
    log = open_log(tmp_path / "events_0", LogConfig(segment_bytes=10_000))
    for base, entries in theirs[".log"].items():
        log.roll(NOW)
        log.append(entries, NOW, origin=Origin.REPLICATION)
        log.high_watermark = log.log_end_offset
        if base:
            ours = producer_snapshots.read(f"{log.path}/{base:020}.snapshot")
            assert by_id(ours) == by_id(producer_snapshots.decode(theirs[".snapshot"][base]))
    assert (log.log_end_offset, log.last_stable_offset) == (72, 69)
    for clean in (True, False):
        log = reopen(log) if clean else open_log(log.path)
        log.high_watermark = 72
        assert log.last_stable_offset == 69
        log.roll(NOW)
        written = {int(path.stem): path.read_bytes() for path in Path(log.path).glob("*.txnindex")}
        assert written == theirs[".txnindex"]
