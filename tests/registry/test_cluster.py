"""One registry of two brokers: changes at either are seen at both, and kills lose and double nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import attrs
import pytest

from tests.peers.processes import free_ports
from tests.registry.hosted import RegistryUser
from tests.support.waiting import wait_until
from tests.tap.brokers.test_brokers import Brokers

pytestmark = pytest.mark.process
LOST = (URLError, ConnectionError, TimeoutError, json.JSONDecodeError)


def neighbouring_ports() -> int:
    """Return the first of two free ports next to each other."""
    while True:
        [port] = free_ports(1)
        with closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


@pytest.fixture
def http_port() -> int:
    return neighbouring_ports()


@pytest.fixture
def cluster(tmp_path: Path, http_port: int) -> Iterator[tuple[Brokers, list[RegistryUser]]]:
    brokers, port = Brokers(tmp_path / "data"), neighbouring_ports()
    overrides = {
        "http.listeners": f"http://127.0.0.1:{http_port}",
        "schema.registry.listeners": f"http://127.0.0.1:{port}",
        "schema.registry.topic.replication.factor": "2",
    }
    brokers.start(2, *(part for name, text in overrides.items() for part in ("--override", f"{name}={text}")))
    yield brokers, [RegistryUser(f"http://127.0.0.1:{number}") for number in (port, port + 1)]
    if brokers.process is not None:
        brokers.process.kill()


def ask(user: RegistryUser, request: str, body: Any = None) -> Any:
    status, answer = user.ask_now(request, body)
    assert status == 200, answer
    return answer


def answers(user: RegistryUser) -> bool:
    try:
        return user.ask_now("GET /subjects")[0] == 200
    except LOST:
        return False


def test_changes_at_either_broker_are_seen_at_once_at_both(cluster: tuple[Brokers, list[RegistryUser]]) -> None:
    _, users = cluster
    for number in range(20):
        writer, reader = users[number % 2], users[(number + 1) % 2]
        schema = json.dumps({"type": "enum", "name": f"E{number}", "symbols": ["A"]}, separators=(",", ":"))
        assert ask(writer, f"POST /subjects/s{number}/versions", {"schema": schema}) == {"id": number + 1}
        assert ask(reader, f"GET /schemas/ids/{number + 1}") == {"schema": schema}
    assert ask(users[0], "PUT /config/s1", {"compatibility": "NONE"}) == ask(
        users[1], "PUT /config/s1", {"compatibility": "NONE"}
    )
    assert ask(users[1], "DELETE /subjects/s1") == [1]
    assert users[0].ask_now("GET /subjects/s1/versions")[1]["error_code"] == 40401


def test_records_over_http_register_schemas_at_the_leader(
    cluster: tuple[Brokers, list[RegistryUser]], http_port: int
) -> None:
    _, users = cluster
    users[0].ask_now("GET /subjects")
    topics = [RegistryUser(f"http://127.0.0.1:{port}/api/topics") for port in (http_port, http_port + 1)]
    ask_http(topics[0], "POST /", {"name": "orders", "partitions": 1})
    wait_until(lambda: topics[1].ask_now("GET /orders")[0] == 200)
    for number, user in enumerate(topics * 2):
        schema = {"type": "AVRO", "schema": f'{{"type": "enum", "name": "E{number}", "symbols": ["A"]}}'}
        schema["subject"] = f"s-{number}"
        ask_http(user, "POST /orders/records", {"value": "A", "value_schema": schema})
    for user in topics:
        rows = ask_http(user, "GET /orders/records?format=schema")["records"]
        assert [(row["value"], row["value_schema"]["subject"]) for row in rows] == [("A", f"s-{n}") for n in range(4)]
    assert ask(users[0], "GET /subjects") == ask(users[1], "GET /subjects") == ["s-0", "s-1", "s-2", "s-3"]


def ask_http(user: RegistryUser, request: str, body: Any = None) -> Any:
    """Return the answer of the HTTP API."""
    method, path = request.split()
    content = None if body is None else json.dumps(body).encode()
    url = user.url + ("" if path == "/" else path)
    with urlopen(Request(url, content, {"Content-Type": "application/json"}, method=method), timeout=60) as answer:
        return json.loads(answer.read())


@attrs.define
class Registrations:
    """Registers schemas at both brokers until an event is set."""

    users: Sequence[RegistryUser]
    number: int
    acknowledged: dict[str, int] = attrs.field(factory=dict)
    """Ids by schemas."""
    missing: list[int] = attrs.field(factory=list)
    """Ids that the other broker did not have after they were acknowledged."""

    def run(self, is_over: threading.Event) -> None:
        count = 0
        while not is_over.is_set():
            count += 1
            name = f"E{self.number}_{count}"
            schema = json.dumps({"type": "enum", "name": name, "symbols": ["A"]}, separators=(",", ":"))
            writer, reader = self.users[count % 2], self.users[(count + 1) % 2]
            try:
                status, answer = writer.ask_now(f"POST /subjects/{name}/versions", {"schema": schema})
                if status != 200:
                    continue
                self.acknowledged[schema] = answer["id"]
                if reader.ask_now(f"GET /schemas/ids/{answer['id']}")[0] == 404:
                    self.missing.append(answer["id"])
            except LOST:
                is_over.wait(0.05)


def test_no_schema_is_lost_and_no_id_given_twice_when_brokers_are_killed(
    cluster: tuple[Brokers, list[RegistryUser]],
) -> None:
    brokers, users = cluster
    is_over = threading.Event()
    clients = [Registrations(users, number) for number in range(3)]
    threads = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        for place in (0, 1):
            before = sum(len(client.acknowledged) for client in clients)
            wait_until(lambda before=before: sum(len(client.acknowledged) for client in clients) > before + 50)
            victim = brokers.pids()[place]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda victim=victim: victim not in brokers.pids() and len(brokers.pids()) == 2)
            wait_until(lambda: all(map(answers, users)))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    ids = [schema_id for client in clients for schema_id in client.acknowledged.values()]
    assert len(set(ids)) == len(ids)
    assert [client.missing for client in clients] == [[], [], []]
    for user in users:
        for client in clients:
            for schema, schema_id in client.acknowledged.items():
                assert ask(user, f"GET /schemas/ids/{schema_id}") == {"schema": schema}
    brokers.stop()
