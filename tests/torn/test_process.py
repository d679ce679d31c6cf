"""A broker process on a damaged data directory: it starts, logs one line, and clients read what precedes the damage.

The data are written by real clients, with every codec, and the broker was killed.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.clients.model import Rec
from tests.support.broker_process import BrokerProcess

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT: Final = 10  # of records of each codec in a batch of its own


@attrs.frozen
class Written:
    """Records that the broker got before it was killed."""

    directory: Path
    values: list[bytes]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("original")
    broker = BrokerProcess(directory)
    broker.start()
    try:
        create_topic(broker.bootstrap, "events", configs={"segment.bytes": "1000", "index.interval.bytes": "200"})
        values = []
        for codec in CODECS * 2:
            records = [Rec(f"{codec} {number}".encode() * 5) for number in range(COUNT)]
            Confluent().write(broker.bootstrap, "events", records, codec=codec, idempotent=True)  # type: ignore[arg-type]
            values += [record.value or b"" for record in records]
        KafkaPython().commit(broker.bootstrap, "group", "events", 0, 42, "")
    finally:
        broker.kill()
    return Written(directory, values)


def log_of(home: Path) -> Path:
    return home / "data" / "events_0"


def last_file(home: Path) -> Path:
    """The last file with something in it."""
    return max(path for path in log_of(home).glob("*.kafka") if path.stat().st_size)


def torn(home: Path) -> int:
    last_file(home).write_bytes(last_file(home).read_bytes()[:-7])
    return 1


def flipped(home: Path) -> int:
    data = bytearray(last_file(home).read_bytes())
    data[-20] ^= 0x10
    last_file(home).write_bytes(data)
    return 1


def zeros_behind(home: Path) -> int:
    with last_file(home).open("ab") as file:
        file.write(bytes(4096))
    return 0


def noise_for_all_that_can_be_rebuilt(home: Path) -> int:
    for pattern in ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint", "../*-offset-checkpoint"):
        for path in log_of(home).glob(pattern):
            path.write_bytes(b"\x7fnoise\xff" * 20)
    return 0


def nothing_but_entries(home: Path) -> int:
    for path in [*(home / "data").glob("*"), *(home / "data").glob(".*"), *log_of(home).glob("*")]:
        if path.is_file() and path.suffix != ".kafka" and not path.name.startswith("coordination"):
            path.unlink()
    return 0


def batches_in(data: bytes) -> int:
    count = position = 0
    while position < len(data):
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
        count += 1
    return count


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (torn, "cut "),
        (flipped, "cut "),
        (zeros_behind, "cut 4096 bytes"),
        (noise_for_all_that_can_be_rebuilt, ""),
        (nothing_but_entries, ""),
    ],
)
def test_a_damaged_broker_starts_and_serves_undamaged_records(
    written: Written, tmp_path: Path, damage: Callable[[Path], int], reported: str
) -> None:
    home = tmp_path / "home"
    shutil.copytree(written.directory, home)
    lost_batches = damage(home)
    broker = BrokerProcess(home)
    broker.start()
    try:
        found = [record.value for record in Confluent().read(broker.bootstrap, "events", [0])]
        assert found == written.values[: len(found)]
        assert len(written.values) - len(found) == COUNT * lost_batches
        lines = [line for line in broker.process.lines if "events_0: " in line]
        assert [reported in line for line in lines] == ([True] if reported else [])
        KafkaPython().write(broker.bootstrap, "events", [Rec(b"one more")])
        after = KafkaPython().read(broker.bootstrap, "events", [0])
        assert [record.value for record in after] == [*found, b"one more"]
        assert KafkaPython().committed(broker.bootstrap, "group", "events", 0) == (42, "")
        assert broker.unexpected_errors() == []
        assert broker.stop() == 0
    finally:
        broker.kill()
