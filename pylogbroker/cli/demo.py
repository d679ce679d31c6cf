"""`pylogbroker demo`: a broker with its web UI, sample data that goes on, and groups, until Ctrl-C.

group      reads      what it shows
---------  ---------  ------------------------------------------------
billing    orders     a group that keeps up, with two members
dashboard  clicks     a group that falls behind: its lag grows
archive    payments   a group without members, which has stopped
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.sample_data import CLICKS_PER_SECOND, ORDERS_PER_SECOND, SampleRecord, Shop
from pylogbroker.errors import StartupError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker import testing
    from pylogbroker.client import sync
    from pylogbroker.client.sync import ConsumerConnector, Producer
    from pylogbroker.testing import Broker
else:
    testing = on_first_use("pylogbroker.testing")
    sync = on_first_use("pylogbroker.client.sync")

_HOST: Final = "127.0.0.1"
_PORT: Final = 9092
_WEB_PORT: Final = 9192
_PORTS_TRIED: Final = 100
_STARTS_MAX: Final = 3
_TOPICS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "orders": (6, {}),
    "payments": (3, {}),
    "clicks": (3, {"compression_type": "zstd", "retention_ms": 3_600_000}),
    "customers": (1, {"cleanup_policy": "compact"}),
}
_PAST_SECONDS: Final = 60  # whose records are there at the start
_TICK_SECONDS: Final = 0.2
_SLOW_SECONDS: Final = 1.0
_SLOW_RECORDS: Final = 30  # in _SLOW_SECONDS: fewer than are written


@click.command("demo", short_help="Run a broker with live sample data and its web UI, until Ctrl-C.")
def command() -> None:
    """Run a broker with live sample data, groups and the web UI, to look around. Ctrl-C removes all of it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        broker, address, web_address = _start(stack)
        for name, (partitions, texts) in _TOPICS.items():
            broker.create_topic(name, partitions, **texts)
        producer = stack.enter_context(sync.Producer(address, compression_type="lz4"))
        shop = Shop()
        began = time.time()
        for second in range(_PAST_SECONDS):
            now = began - _PAST_SECONDS + second
            _send(producer, shop.records(now, ORDERS_PER_SECOND, CLICKS_PER_SECOND), now)
        producer.flush()
        stack.enter_context(_readers(address))
        click.echo(_welcome(address, web_address))
        try:
            _write_on(producer, shop)
        except KeyboardInterrupt:
            click.echo("Stopping; all data is removed.", err=True)


def _start(stack: ExitStack) -> tuple[Broker, str, str]:
    """Return a broker that runs, its address and that of its web UI."""
    for _ in range(_STARTS_MAX - 1):
        with suppress(StartupError):  # another process may have taken a port meanwhile
            return _start_once(stack)
    return _start_once(stack)


def _start_once(stack: ExitStack) -> tuple[Broker, str, str]:
    address, web_address = f"{_HOST}:{_free_port(_PORT)}", f"{_HOST}:{_free_port(_WEB_PORT)}"
    settings = {"listeners": f"PLAINTEXT://{address}", "http.listeners": f"http://{web_address}"}
    return stack.enter_context(testing.Broker(settings)), address, web_address


def _free_port(first: int) -> int:
    """Return the first port from here on that nobody listens on."""
    for port in range(first, first + _PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return port
    raise click.ClickException(f"no port from {first} to {first + _PORTS_TRIED - 1} is free on {_HOST}")


def _write_on(producer: Producer, shop: Shop) -> None:
    orders, clicks = (round(rate * _TICK_SECONDS) for rate in (ORDERS_PER_SECOND, CLICKS_PER_SECOND))
    while True:
        now = time.time()
        _send(producer, shop.records(now, orders, clicks), now)
        time.sleep(_TICK_SECONDS)


def _send(producer: Producer, records: Iterator[SampleRecord], now: float) -> None:
    for record in records:
        key = None if record.key is None else record.key.encode()
        producer.submit(record.topic, record.value.encode(), key, headers=record.headers, timestamp=round(now * 1000))


@contextmanager
def _readers(address: str) -> Iterator[None]:
    """Let groups read: one keeps up, one is too slow, one has stopped after some records."""
    with sync.ConsumerConnector(address, group="archive", auto_offset_reset="smallest") as archive:
        archive.stream("payments").get_many(100, timeout=10)
        archive.commit_offsets()
    is_over = threading.Event()
    with ExitStack() as stack:
        for group, topic, most, pause in (
            ("billing", "orders", 1000, 0.0),
            ("billing", "orders", 1000, 0.0),
            ("dashboard", "clicks", _SLOW_RECORDS, _SLOW_SECONDS),
        ):
            member = stack.enter_context(
                sync.ConsumerConnector(address, group=group, auto_offset_reset="smallest", client_id=f"{group}-demo")
            )
            thread = threading.Thread(target=_read, args=(member, topic, most, pause, is_over), daemon=True)
            thread.start()
            stack.callback(thread.join)
        stack.callback(is_over.set)
        yield


def _read(member: ConsumerConnector, topic: str, most: int, pause: float, is_over: threading.Event) -> None:
    stream = member.stream(topic)
    while not is_over.wait(pause):
        stream.get_many(most, timeout=_TICK_SECONDS)


def _welcome(address: str, web_address: str) -> str:
    option = "" if address == f"{_HOST}:{_PORT}" else f" -b {address}"
    return f"""\
A broker runs at {address}, its web UI at http://{web_address}/
Records of a shop go to the topics orders, payments, clicks and customers. The group billing keeps up with orders,
dashboard falls behind with clicks, and archive has stopped reading payments.

In another terminal:
  pylogbroker topic list{option}
  pylogbroker consume orders -o -5{option}
  pylogbroker group lag dashboard{option}
  echo hello | pylogbroker produce greetings --create{option}

Ctrl-C ends all of it, and removes the data."""
