"""Links are cut in one direction and healed, and nothing is lost; brokers are distinguished from clients."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import apache, own
from tests.cluster.network import CLIENT, ZOOKEEPER, Network, sender_of
from tests.support.waiting import wait_until

Connect = Callable[[int], socket.socket]


def request(client_id: str | None, more: bytes = b"") -> bytes:
    """The start of a Metadata request."""
    encoded = (client_id or "").encode()
    return struct.pack(">ihhih", 100, 3, 1, 7, -1 if client_id is None else len(encoded)) + encoded + more


@pytest.mark.parametrize(
    ("client_id", "sender"),
    [
        ("1", 1),
        ("12", 12),
        ("broker-3-fetcher-0", 3),
        ("broker-3-txn-marker-sender", 3),
        ("rdkafka", CLIENT),
        ("broker-x", CLIENT),
        ("consumer-1", CLIENT),
        ("", CLIENT),
        (None, CLIENT),
    ],
)
def test_a_sender_by_its_client_id(client_id: str | None, sender: int) -> None:
    assert sender_of(request(client_id, b"more")) == sender


def test_a_request_that_is_none() -> None:
    assert sender_of(b"GET /") == CLIENT


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def connect(network: Network) -> Iterator[Connect]:
    """Connects a broker to broker 2, which answers with what it gets."""
    echo = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_echo, args=(echo,), daemon=True).start()
    proxy = network.proxy(2, echo.getsockname()[1])
    made: list[socket.socket] = []

    def connect(broker: int) -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=60))
        first = request(str(broker))
        made[-1].sendall(first)
        assert made[-1].recv(1000) == first
        return made[-1]

    yield connect
    for each in (echo, *made):
        each.close()


def _echo(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(1000):
            connection.sendall(data)


def is_answered(connection: socket.socket, data: bytes) -> bool:
    """True if data comes back."""
    connection.sendall(data)
    return connection.recv(1000) == data


def is_silent(connection: socket.socket) -> bool:
    """True if nothing arrives, for a fifth of a second."""
    connection.settimeout(0.2)
    try:
        connection.recv(1000)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(60)
    return False


@pytest.mark.parametrize("link", [(1, 2), (2, 1)])
def test_a_cut_in_one_direction_delays_later_bytes(network: Network, connect: Connect, link: tuple[int, int]) -> None:
    one, three = connect(1), connect(3)
    network.cut(*link)
    one.sendall(b"held back")
    assert is_silent(one)
    assert is_answered(three, b"of broker 3")
    network.heal()
    assert one.recv(1000) == b"held back"


def test_a_cut_after_some_bytes(network: Network, connect: Connect) -> None:
    one = connect(1)
    network.cut_after(1, 2, 10)
    assert is_answered(one, b"0123456789")
    one.sendall(b"held back")
    assert is_silent(one)
    network.heal()
    assert one.recv(1000) == b"held back"
    assert is_answered(one, b"more than ten bytes")


def test_a_cut_of_another_link_holds_nothing_back(network: Network, connect: Connect) -> None:
    network.cut(1, 3)
    assert is_answered(connect(1), b"data")


def test_an_isolated_node(network: Network, connect: Connect) -> None:
    one, three = connect(1), connect(3)
    network.isolate(2, [1])
    one.sendall(b"data")
    assert is_silent(one)
    assert is_answered(three, b"data")


def test_the_end_of_a_connection_is_held_back_too(network: Network, connect: Connect) -> None:
    one = connect(1)
    network.cut(2, 1)
    one.shutdown(socket.SHUT_WR)
    assert is_silent(one)
    network.heal()
    assert one.recv(1000) == b""


def test_a_delay(network: Network, connect: Connect) -> None:
    one = connect(1)
    network.delay(1, 2, 0.2)
    network.delay(2, 1, 0.1)
    begun = time.monotonic()
    one.sendall(b"data")
    assert one.recv(1000) == b"data"
    assert time.monotonic() - begun >= 0.3


def test_clients_and_brokers_reach_our_broker_by_its_proxy(
    new_cluster: Callable[..., Cluster], network: Network
) -> None:
    cluster = new_cluster(own, network=network)
    [proxy] = [proxy for proxy in network.proxies if proxy.target == 1]
    assert [broker.port for broker in cluster.admin.list_topics(timeout=60).brokers.values()] == [proxy.port]


def test_followers_and_sessions_of_apache_kafka(
    new_cluster_on_zookeeper: Callable[..., Cluster], network: Network, topic: str
) -> None:
    cluster = new_cluster_on_zookeeper(apache, apache, network=network)
    leader = cluster.wait_for_controller()  # the leader asks the controller to shrink the ISR, and gets its answer
    follower = 3 - leader
    cluster.create(topic, replicas=[[leader, follower]])
    network.cut(follower, leader)  # the fetches
    cluster.produce(topic, b"value")  # is acknowledged when the follower is no longer waited for
    wait_until(lambda: cluster.isr(topic, 0) == [leader])
    wait_until(lambda: cluster.tree.brokers().keys() == {1, 2})
    network.heal()
    cluster.wait_until_in_isr(topic, 0, 1, 2)
    network.cut(leader, ZOOKEEPER)
    assert cluster.wait_for_leader(topic, 0, other_than=leader) == follower
    wait_until(lambda: cluster.tree.brokers().keys() == {follower})
    network.heal()
    cluster.wait_until_in_sync(topic)
    wait_until(lambda: cluster.tree.brokers().keys() == {1, 2})
