"""The HTTP server in the life of a broker."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from pylogbroker.config import BrokerConfig, Endpoint, http_settings
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.interfaces.tree import SessionEvent, SessionListener, SessionState
from pylogbroker.storage import LogManager, load_logs
from pylogbroker.tap import http, lifecycle
from pylogbroker.tap.brokers.plan import plan
from pylogbroker.tap.http_site import HttpSite
from pylogbroker.tap.preflight import check_ports
from pylogbroker.tap.service import BrokerService
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.web import topic_rates
from pylogbroker.web.sampler import Sampler
from tests.broker.log_lines import logged_lines
from tests.peers.processes import free_ports
from tests.support.reactor_run import run
from tests.tap.embedding_programs import settings
from tests.testing.faults.raw import RawClient


def get(address: Endpoint, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://{address.host}:{address.port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_ready_once_clients_are_served_and_until_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listeners: list[SessionListener] = []
    monkeypatch.setattr(EmbeddedTree, "watch_session", lambda tree, listener: listeners.append(listener))
    loading: list[LogManager] = []
    early: list[tuple[int, str]] = []
    service = BrokerService(reactor, settings(tmp_path / "data", http_listeners="http://:0"))

    def asked_meanwhile(logs: LogManager, *arguments: object) -> object:
        """Load after a request has come, in a worker thread."""
        loading.append(logs)
        starting = service._starting
        assert starting is not None
        assert starting._http is not None
        early.extend(get(starting._http.addresses[0], path) for path in ("/livez", "/readyz"))
        return load_logs(logs, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lifecycle, "load_logs", asked_meanwhile)

    async def work() -> None:
        service.startService()
        await service.listening
        (address,) = service.http_addresses
        assert address.host == "127.0.0.1"

        def ask(path: str) -> Deferred[tuple[int, str]]:
            return deferToThread(get, address, path)

        assert early == [(200, "alive\n"), (503, "the start is not over\n")]
        assert await ask("/readyz") == (200, "ready\n")
        assert '"total":0' in (await ask("/api/topics"))[1]
        assert "<h1>Overview</h1>" in (await ask("/"))[1]
        for state, reason in ((SessionState.SUSPENDED, "cannot be reached"), (SessionState.EXPIRED, "has expired")):
            for listener in listeners:
                listener(SessionEvent(state, 1))
            code, reasons = await ask("/readyz")
            assert (code, reason in reasons) == (503, True)
        for listener in listeners:
            listener(SessionEvent(SessionState.CONNECTED, 1))
        loading[0].directories.fail(str(tmp_path / "data"), "a broken disk")
        assert await ask("/readyz") == (503, f"the log directory {tmp_path}/data is offline\n")
        assert (await ask("/livez"))[0] == 200
        await service.stopService()
        assert service.http_addresses == ()
        with socket.socket() as probe:
            assert probe.connect_ex((address.host, address.port))

    run(work)


def test_no_server_without_listeners(tmp_path: Path) -> None:
    service = BrokerService(reactor, settings(tmp_path / "data"))

    async def work() -> None:
        service.startService()
        await service.listening
        assert service.http_addresses == ()
        await service.stopService()

    run(work)


def test_a_process_serves_the_web_ui_on_the_next_free_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port of a listener is not taken either, though it is free until the listener has it."""
    [listened, free] = free_ports(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(http_settings, "UI_PORTS", (taken.getsockname()[1], listened, free))
        given = {"log.dirs": str(tmp_path / "data"), "listeners": f"PLAINTEXT://127.0.0.1:{listened}"}
        assert served_addresses(given) == [f"http://127.0.0.1:{free}"]
        assert served_addresses({**given, "http.listeners": ""}) == []
        assert served_addresses(given, has_ui=False) == []


def test_a_process_starts_though_no_port_is_free_for_the_web_ui(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, logged_lines() as lines:
        monkeypatch.setattr(http_settings, "UI_PORTS", (taken.getsockname()[1],))
        assert served_addresses(settings(tmp_path / "data")) == []
    assert any("choose another one with http.listeners" in line for line in lines)


def test_the_site_of_the_web_ui_is_made_when_somebody_connects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = http.HttpServer._make_site

    def making(server: http.HttpServer, sampler: Sampler) -> HttpSite:
        made.append(server)
        return make(server, sampler)

    monkeypatch.setattr(http.HttpServer, "_make_site", making)

    async def work(address: Endpoint) -> None:
        assert made == []
        assert "<h1>Overview</h1>" in (await deferToThread(get, address, "/"))[1]
        assert (await deferToThread(get, address, "/readyz")) == (200, "ready\n")
        assert "pylogbroker_" in (await deferToThread(get, address, "/metrics"))[1]
        assert len(made) == 1

    run_with_default_ui(work, tmp_path, monkeypatch)


def test_a_web_ui_that_cannot_be_loaded_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(server: http.HttpServer, sampler: Sampler) -> HttpSite:
        raise OSError("planted")

    monkeypatch.setattr(http.HttpServer, "_make_site", fail)

    async def work(address: Endpoint) -> None:
        for reason in (r"closed|reset", "refused"):
            with pytest.raises(OSError, match=reason):
                await deferToThread(get, address, "/")

    with logged_lines() as lines:
        run_with_default_ui(work, tmp_path, monkeypatch)
    assert "the web UI cannot be loaded, and is not served" in lines


def run_with_default_ui(
    use: Callable[[Endpoint], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_settings, "UI_PORTS", free_ports(1))
    service = BrokerService(reactor, settings(tmp_path / "data"))
    service.has_ui = True

    async def work() -> None:
        service.startService()
        await service.listening
        (address,) = service.http_addresses
        await use(address)
        await service.stopService()

    run(work)


def served_addresses(given: dict[str, str], has_ui: bool = True) -> list[str]:
    """Start and stop a broker; return the addresses of its HTTP server."""
    service = BrokerService(reactor, given)
    service.has_ui = has_ui
    addresses: list[str] = []

    async def work() -> None:
        service.startService()
        await service.listening
        addresses.extend(map(str, service.http_addresses))
        await service.stopService()

    run(work)
    return addresses


def test_addresses() -> None:
    def parsed(text: str) -> list[str]:
        return list(map(str, BrokerConfig({"http.listeners": text}).http_listeners))

    assert parsed("http://:9464") == ["http://127.0.0.1:9464"]
    assert parsed("http://0.0.0.0:1, HTTP://[::1]:2/") == ["http://0.0.0.0:1", "http://[::1]:2"]
    assert parsed("") == []
    for text, reason in (
        ("https://:1", "https is not served"),
        ("http://:70000", "out of range"),
        ("http://:700000", "out of range"),
        ("http://:1-2", "only --brokers takes"),
        ("9464", "expected http://host:port"),
        ("http://a:1,http://a:1", "each host and port once"),
    ):
        with pytest.raises(ConfigError, match=reason):
            parsed(text)


def test_a_taken_port_ends_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = BrokerConfig({"http.listeners": f"http://127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(StartupError, match=r"cannot listen on http://.*choose another port with http\.listeners"):
            check_ports(config.http_listeners)


def test_brokers_of_one_machine_have_ports_of_their_own() -> None:
    def planned(text: str) -> list[str]:
        return [broker.overrides["http.listeners"] for broker in plan({"http.listeners": text}, 2).brokers]

    assert planned("http://:9464") == ["http://:9464", "http://:9465"]
    assert planned("http://0.0.0.0:7000-7009") == ["http://0.0.0.0:7000", "http://0.0.0.0:7001"]
    without = [broker.overrides.get("http.listeners") for broker in plan({}, 3).brokers]
    assert without == [None, "", ""]  # the first one has the web UI of all
    with pytest.raises(ConfigError, match=r"expected http://host:port, or a range of ports"):
        planned("nonsense")


@pytest.mark.parametrize("given", [{"http_listeners": "http://:0"}, {}], ids=["setting", "default"])
def test_samples_are_taken_while_the_broker_serves(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_rates, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(http_settings, "UI_PORTS", free_ports(1))
    service = BrokerService(reactor, settings(tmp_path / "data", **given))
    service.has_ui = True

    async def work() -> None:
        service.startService()
        await service.listening
        (address,) = service.http_addresses
        create = Request(f"http://{address.host}:{address.port}/api/topics", b'{"name": "clicks"}')
        create.add_header("Content-Type", "application/json")
        await deferToThread(lambda: urlopen(create, timeout=60).close())
        rate = None
        while rate is None:
            _, body = await deferToThread(get, address, "/api/topics")
            rate = json.loads(body)["topics"][0]["messages_in_per_second"]
        assert rate == 0.0
        await service.stopService()

    run(work)


def test_faults_are_on_the_page_where_testing_is_on(tmp_path: Path) -> None:
    service = BrokerService(reactor, settings(tmp_path / "data", http_listeners="http://:0", testing_faults="true"))

    async def work() -> None:
        service.startService()
        (listener,) = await service.listening
        (address,) = service.http_addresses

        def ask(name: str, /, **fields: object) -> None:
            request = Request(f"http://{address.host}:{address.port}/api/{name}", json.dumps(fields).encode())
            request.add_header("Content-Type", "application/json")
            urlopen(request, timeout=60).close()

        def codes() -> list[int]:
            ask("topics", name="clicks")
            ask("faults", api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="clicks")
            with RawClient(f"{listener.host}:{listener.port}") as client:
                return [client.produce("clicks").error_code for _ in range(2)]

        assert await deferToThread(codes) == [6, 0]
        code, body = await deferToThread(get, address, "/api/faults")
        [fault] = json.loads(body)["faults"]
        assert (code, fault["hits"], fault["is_spent"]) == (200, 1, True)
        await service.stopService()

    run(work)
