"""An idempotent producer with five batches under way when the broker stops sends all of them again: none is news.

The log may have begun a new segment between any of them, or have been closed, and so know them by a snapshot only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.errors import KafkaError
from pylogbroker.storage import Log, LogConfig
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.producer_states import ProducerStateEntry, WrittenBatch
from tests.storage.support import NOW, batch, open_log, reopen

CONFIG = LogConfig()
UNDER_WAY = 5  # what the protocol allows at most
EARLIER = 3


def sent(number: int) -> bytes:
    return batch([b"a", b"b"], producer=(7, 0, 2 * number))


def crashed(log: Log) -> Log:
    return open_log(log.path, CONFIG)


@pytest.mark.parametrize("stop", [crashed, reopen])
@pytest.mark.parametrize("rolls", [*range(EARLIER + UNDER_WAY + 1), "all"])
def test_all_batches_in_flight_are_recognized_as_duplicates(tmp_path: Path, rolls: int | str, stop: object) -> None:
    log = open_log(tmp_path / "events_0", CONFIG)
    count = EARLIER + UNDER_WAY
    for number in range(count):
        if rolls in (number, "all"):
            log.roll(NOW)
        log.append(sent(number), NOW)
    if rolls == count:
        log.roll(NOW)
    again = stop(log)  # type: ignore[operator]
    for number in range(EARLIER, count):
        appended = again.append(sent(number), NOW)
        assert (appended.base_offset, appended.last_offset, appended.duplicate) == (2 * number, 2 * number + 1, True)
    with pytest.raises(KafkaError):
        again.append(sent(count + 1), NOW)
    assert not again.append(sent(count), NOW).duplicate


def test_snapshots_are_read_back() -> None:
    one = tuple(WrittenBatch(10 * n, 10 * n + 9, 100 * n, 100 * n + 9, 1000 + n) for n in range(5))
    states = [
        ProducerStateEntry(7, 0, one, 1004),
        ProducerStateEntry(8, 3, one[:1], 1000, 4, 0),
        ProducerStateEntry(9, 1, (), 1000),
        ProducerStateEntry(10, 2, one[1:4], 1003),
    ]
    assert producer_snapshots.decode(producer_snapshots.encode(states)) == states


@pytest.mark.parametrize("cut", [1, 4, 20, 40, 41, 44])
def test_a_snapshot_that_was_cut(cut: int) -> None:
    states = [ProducerStateEntry(7, 0, (WrittenBatch(0, 1, 0, 1, 5), WrittenBatch(2, 3, 2, 3, 5)), 5)]
    with pytest.raises(producer_snapshots.DamagedFile):
        producer_snapshots.decode(producer_snapshots.encode(states)[:-cut])
