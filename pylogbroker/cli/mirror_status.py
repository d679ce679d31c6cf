"""`pylogbroker mirror status`: mirrors into a cluster, by their heartbeats there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import format_option, note, show
from pylogbroker.cli.partition_reader import PartitionReader
from pylogbroker.cli.topic import existing_topics
from pylogbroker.cli.watching import views, watch_option
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.mirror_records import formats
    from pylogbroker.mirror_records import status as mirror_status
    from pylogbroker.mirror_records.status import MirrorSign
else:
    admin_api = on_first_use("pylogbroker.client.admin")
    formats = on_first_use("pylogbroker.mirror_records.formats")
    mirror_status = on_first_use("pylogbroker.mirror_records.status")

_RECORDS_MAX: Final = 1000
"""Heartbeats that are read: those of some seconds."""


@click.command("status", short_help="Show mirrors into a cluster, their lag and rate.")
@click.option("--topics", "by_topic", is_flag=True, help="Show each topic, those with the greatest lag first.")
@watch_option
@cluster_options
@format_option
def status(by_topic: bool, watch: float | None, connection: Connection, output: str) -> None:
    """Show mirrors into a cluster, by the heartbeats that they write there each second.

    Give the target's address. A mirror that is silent has ended, or cannot reach the target. MirrorMaker 2 writes
    heartbeats without lag and rate.

    \b
    pylogbroker mirror status -b offline:9092
    """
    with connection.admin() as admin:
        for _ in views(watch):
            signs = _signs(connection, admin)
            rows = [*_topic_rows(signs)] if by_topic else [*_rows(signs, time.time())]
            if not signs:
                note("No mirror has written a heartbeat to this cluster.")
            show(rows, output)
            for sign in signs:
                for topic, why in (sign.report.stopped if sign.report is not None else {}).items():
                    note(f"{sign.source}->{sign.target}: topic {topic} is not mirrored: {why}")


def _signs(connection: Connection, admin: BlockingAdmin) -> list[MirrorSign]:
    partition = formats.HEARTBEATS_TOPIC, 0
    if not existing_topics(admin, [formats.HEARTBEATS_TOPIC]):
        return []
    end = admin.records.offsets({partition: admin_api.LATEST})[partition].or_end(0)
    first = admin.records.offsets({partition: admin_api.EARLIEST})[partition].or_end(0)
    start = max(first, end - _RECORDS_MAX)
    reader = PartitionReader(connection, admin, {partition: start}, {partition: end})
    return mirror_status.signs_of((message.key, message.value, message.headers) for message in reader.messages())


def _rows(signs: list[MirrorSign], now: float) -> Iterator[dict[str, Any]]:
    for sign in signs:
        report = sign.report
        yield {
            "source": sign.source,
            "target": sign.target,
            "state": "running" if sign.is_running(now) else "silent",
            "seconds": round(max(0.0, now - sign.timestamp / 1000), 1),
            "lag": None if report is None else report.lag,
            "records_per_second": None if report is None else report.records_per_second,
            "bytes_per_second": None if report is None else report.bytes_per_second,
            "stopped": None if report is None else sorted(report.stopped),
            "trouble": None if report is None else report.trouble,
        }


def _topic_rows(signs: list[MirrorSign]) -> Iterator[dict[str, Any]]:
    for sign in signs:
        for topic in () if sign.report is None else sign.report.topics:
            yield {
                "source": sign.source,
                "topic": topic.topic,
                "target": topic.target,
                "partitions": topic.partitions,
                "lag": topic.lag,
            }
