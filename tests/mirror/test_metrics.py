"""Metrics of mirrors, read by Prometheus' own parser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.threads import deferToThread

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.errors import ConfigError
from pylogbroker.mirror.copier import CopyCounts
from pylogbroker.mirror.group_sync import GroupSyncCounts
from pylogbroker.mirror.lag_table import LagTable
from pylogbroker.mirror.metrics import exposition, listen
from pylogbroker.mirror.mirror import MirrorStatus

LAGS = {("orders", 0): (5, 12), ("orders", 1): (3, 4), ("orders", 2): (-1, -1), ('b"\\\n', 0): (1, 1)}


@attrs.frozen
class Measured:
    status: MirrorStatus
    group_counts: GroupSyncCounts


def measured(source: str) -> Measured:
    counts = CopyCounts(records=100, bytes=2000, commits=3)
    lags = LagTable()
    for (topic, partition), (next_offset, end) in LAGS.items():
        lags.update(FetchBuffer(topic, partition, 100, delivered=next_offset, high_watermark=end))
    status = MirrorStatus(source, "offline", True, False, lags, counts, {"bills": "no right"}, "", {"orders": 7})
    return Measured(status, GroupSyncCounts(runs=1, groups=4, to_target=5, to_source=6))


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name.removeprefix("pylogbroker_mirror_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_mirror_has_its_figures() -> None:
    parsed = samples(exposition([measured("east"), measured("west")]).decode())

    def value(name: str, **labels: str) -> float:
        pair: Mapping[str, str] = {"source": "east", "target": "offline", **labels}
        return parsed[name, frozenset(pair.items())]

    assert [value(name) for name in ("active", "caught_up", "records_total", "bytes_total", "commits_total")] == [
        1,
        0,
        100,
        2000,
        3,
    ]
    assert (value("lag_records", topic="orders"), value("lag_records", topic='b"\\\n')) == (8, 0)
    assert value("topic_stopped", topic="bills") == 1
    assert value("lost_offsets_total", topic="orders") == 7
    assert (value("groups"), value("group_offsets_total", to="target")) == (4, 5)
    assert value("group_offsets_total", to="source") == 6
    assert value("records_total", source="west") == 100
    assert len(parsed) == 2 * 12


def test_process_without_mirrors_has_no_metrics() -> None:
    assert exposition([]) == b""


async def test_metrics_are_served() -> None:
    port: Any = listen(reactor, "127.0.0.1:0", lambda: [measured("east")])
    address = f"http://127.0.0.1:{port.getHost().port}"
    text = await deferToThread(lambda: urlopen(f"{address}/metrics", timeout=60).read().decode())
    assert samples(text) == samples(exposition([measured("east")]).decode())
    with pytest.raises(ConfigError, match="cannot be listened on"):
        listen(reactor, f"127.0.0.1:{port.getHost().port}", list)
    await maybeDeferred(port.stopListening)


@pytest.mark.parametrize("address", ["", "9465", ":9465", "host:", "host:x", "host:70000"])
def test_addresses_that_are_none_are_named(address: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics: .* is not accepted"):
        listen(reactor, address, list)


def test_page_has_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mirror-groups.md").read_text()
    text = exposition([measured("east")]).decode()
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert families == set(re.findall(r"`(pylogbroker_mirror_[a-z_]+)`", page))
