"""A broker that is killed again and again: a writer that retries with keys, and a follower that resumes."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs
import pytest

from tests.support.waiting import wait_until
from tests.web.browser import PageBroker

RECORDS: Final = 60
KILLS: Final = 2
PATH: Final = "/api/topics/orders/records"

pytestmark = pytest.mark.process


def connection_to(broker: PageBroker) -> HTTPConnection:
    address = urlsplit(broker.url)
    return HTTPConnection(str(address.hostname), address.port, timeout=30)


def post(broker: PageBroker, path: str, body: object, key: str = "") -> int:
    """Return the status of the answer, 0 without one."""
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    connection = connection_to(broker)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, HTTPException):
        return 0
    else:
        return answer.status
    finally:
        connection.close()


@attrs.define(eq=False)
class Writer:
    """Writes numbers, each of them until it is acknowledged."""

    broker: PageBroker
    is_up: threading.Event
    acknowledged: int = 0
    retries: int = 0

    def run(self) -> None:
        while self.acknowledged < RECORDS:
            number = self.acknowledged
            if post(self.broker, PATH, {"value": number, "partition": number % 2}, f"order-{number}") == 200:
                self.acknowledged += 1
            else:
                self.retries += 1
                self.is_up.wait()


@attrs.define(eq=False)
class Follower:
    """Follows the topic, and resumes where it was."""

    broker: PageBroker
    is_up: threading.Event
    values: list[str] = attrs.field(factory=list)
    connections: int = 0
    is_over: bool = False
    _position: str = "0:0,1:0"

    def run(self) -> None:
        while not self.is_over:
            connection = connection_to(self.broker)
            try:
                self._read(connection)
            except (OSError, HTTPException):
                self.is_up.wait()
            finally:
                connection.close()

    def _read(self, connection: HTTPConnection) -> None:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self._position}
        connection.request("GET", PATH, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"status {answer.status}")
        self.connections += 1
        while line := answer.readline():
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "records" not in event:
                    return
                self.values += [row["value"] for row in event["records"]]
                self._position = event["next"]


def test_each_record_is_written_and_read_once(tmp_path: Path) -> None:
    broker = PageBroker(tmp_path / "broker")
    broker.start()
    is_up = threading.Event()
    is_up.set()
    writer, follower = Writer(broker, is_up), Follower(broker, is_up)
    writing, following = (threading.Thread(target=work.run) for work in (writer, follower))
    try:
        assert post(broker, "/api/topics", {"name": "orders", "partitions": 2}) == 200
        following.start()
        wait_until(lambda: follower.connections == 1)
        writing.start()
        for kill in range(1, KILLS + 1):
            wait_until(lambda kill=kill: writer.acknowledged >= RECORDS * kill // (KILLS + 2))
            is_up.clear()
            broker.kill()
            broker.start()
            is_up.set()
        wait_until(lambda: writer.acknowledged == RECORDS and len(follower.values) >= RECORDS)
        connection = connection_to(broker)
        connection.request("GET", f"{PATH}?limit=1000")
        stored = [row["value"] for row in json.loads(connection.getresponse().read())["records"]]
        connection.close()
    finally:
        follower.is_over = True
        writer.acknowledged = RECORDS
        is_up.set()
        broker.kill()
        for thread in (writing, following):
            if thread.ident is not None:
                thread.join()
    expected = sorted(map(str, range(RECORDS)))
    assert (sorted(stored), sorted(follower.values)) == (expected, expected)
    assert writer.retries > 0
    assert follower.connections > 1
