"""`pylogbroker demo` as a user runs it: a broker with sample data and its web UI, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.support.broker_process import START_SECONDS_MAX
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

SECONDS_MAX = 120.0


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_demonstration(tmp_path: Path, ending: signal.Signals) -> None:
    process = LineProcess(
        [sys.executable, "-m", "pylogbroker.cli", "demo"],
        environment={**os.environ, "TMPDIR": str(tmp_path)},
        forked=False,
    )
    try:
        found = process.expect(r"A broker runs at (\S+), its web UI at (\S+)", START_SECONDS_MAX)
        process.expect("Ctrl-C ends all of it", START_SECONDS_MAX)
        check(found[1], found[2])
        assert list(tmp_path.rglob("orders_*/*.kafka"))
        os.kill(process.pid, ending)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
    assert list(tmp_path.iterdir()) == []


def check(address: str, web_address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = admin.list_topics(timeout=SECONDS_MAX).topics
    assert {"orders", "payments", "clicks", "customers"} <= topics.keys()
    wait_until(lambda: states(admin) == {"archive": "EMPTY", "billing": "STABLE", "dashboard": "STABLE"}, SECONDS_MAX)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "latest"})
    consumer.subscribe(["orders"])
    message = None
    while message is None:
        message = consumer.poll(SECONDS_MAX)
    assert message.error() is None
    consumer.close()
    with urlopen(f"{web_address}topics", timeout=SECONDS_MAX) as page:
        assert re.search(r"\borders\b", page.read().decode())


def states(admin: AdminClient) -> dict[str, str]:
    groups = admin.list_consumer_groups().result(SECONDS_MAX).valid
    return {group.group_id: group.state.name for group in groups if group.group_id != "g"}
