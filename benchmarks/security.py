"""`python -m benchmarks.security`: what TLS and ACLs cost a broker, and how exactly it holds a quota.

What TLS costs is the processor time of the broker for each megabyte, and what ACLs cost is that for each single record
(`benchmarks.authorizer`). A quota is held on the average of its windows.

    python -m benchmarks.security             # this broker alone, with TLS and without
    python -m benchmarks.security --kafka     # and Apache Kafka, with the same certificate, started for the run

The brokers alternate; each figure is the median of its rounds. The load generator's own processor time is not counted.
"""

import gc
import socket
import ssl
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console

from benchmarks import authorizer
from benchmarks.broker import show
from benchmarks.brokers import SETTINGS, OwnBroker, process_cpu_seconds, scratch
from benchmarks.driver import Block, call, connect, pump
from benchmarks.machine import touch_memory
from benchmarks.requests import altered, batch, produce_quota_request, produce_request, produced
from benchmarks.session import Session, expect, try_produce
from benchmarks.workloads import MEGABYTE, MEGABYTE_OF_KILOBYTES, PRELOADED_BYTES, preload
from pylogbroker.security.tls.authority import Authority
from tests.peers.kafka import SINGLE_NODE, KafkaBroker
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports

ANSWER_BYTES = 1 << 20
MEGABYTES = 400
WANTED = 2
WINDOWS_SECONDS = 11
"""Time over which both brokers measure a quota by default."""
QUOTA_SECONDS = 30
"""Time for which the quota is shown as well; it ends within a window, after the burst that the window begins with."""
QUOTA_DELAY_SECONDS = 1.0  # Apache Kafka's broker follows its controller
HOST = "127.0.0.1"


class _Secured:
    """A socket with TLS, for the load generator; it has no flags, so that all bytes are copied."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._secured = secured
        self.sendall = secured.sendall
        self.close = secured.close

    def recv_into(self, buffer: Any, most: int = 0, flags: int = 0) -> int:
        return self._secured.recv_into(buffer, most or None)


@attrs.frozen
class TlsSession(Session):
    """Session with a listener that has TLS."""

    context: ssl.SSLContext = attrs.field(kw_only=True)

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with self.context.wrap_socket(connect(self.host, self.port), server_hostname=self.host) as secured:
            yield _Secured(secured)  # type: ignore[misc]


@attrs.frozen
class Broker:
    """A running broker: its process, and a session for each of its listeners."""

    name: str
    pid: int
    sessions: Mapping[str, Session]


def produce(broker: Broker, session: Session, count: int) -> float:
    """Produce requests of 1 MB; return the broker's milliseconds for each megabyte."""
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, MEGABYTE_OF_KILOBYTES.build())])
        size = try_produce(sock, request, [0])
        begin = process_cpu_seconds(broker.pid)
        pump(sock, Block.of([request]), count, 5, size)
        used = process_cpu_seconds(broker.pid) - begin
        expect(session.end_offsets(topic), [(count + 1) * MEGABYTE_OF_KILOBYTES.records], "log end")
    return used * 1000 / (count * len(request) / MEGABYTE)


def fetch(broker: Broker, session: Session, count: int) -> float:
    """Fetch answers of 1 MB; return the broker's milliseconds for each megabyte."""
    with session.topic() as topic, session.connection() as sock:
        fetches, size = preload(sock, topic, 0, PRELOADED_BYTES, ANSWER_BYTES)
        begin = process_cpu_seconds(broker.pid)
        pump(sock, fetches, count, 5, size)
        used = process_cpu_seconds(broker.pid) - begin
    return used * 1000 / (count * size / MEGABYTE)


def produce_within_quota(session: Session, times: Sequence[float]) -> list[float]:
    """Produce as fast as a quota of 1 MB per second lets; return the megabytes of a second up to each time."""
    with session.topic() as topic, session.connection() as sock:
        request = produce_request(topic, [(0, batch(16, 1000))])
        expect(altered(call(sock, produce_quota_request(MEGABYTE))), [0], "quota")
        time.sleep(QUOTA_DELAY_SECONDS)
        begin, sent, rates = time.monotonic(), 0, []
        for until in times:
            while (elapsed := time.monotonic() - begin) < until:
                [(code, _)] = produced(call(sock, request))
                expect(code, 0, "produce")
                sent += len(request)
            rates.append(sent / MEGABYTE / elapsed)
        expect(altered(call(sock, produce_quota_request(None))), [0], "quota")
    return rates


WORKLOADS: Mapping[str, Callable[[Broker, Session, int], float]] = {"produce 1 MB": produce, "fetch 1 MB": fetch}


@attrs.frozen
class Certificates:
    """The settings of a listener with TLS, and the context of its clients."""

    settings: Mapping[str, str]
    context: ssl.SSLContext

    @classmethod
    def of(cls, directory: Path) -> "Certificates":
        authority = Authority.create("benchmark", days=1)
        path = directory / "broker.pem"
        path.write_text(authority.issue("broker", [HOST], days=1).pem())
        context = ssl.create_default_context(cadata=authority.identity.certificate_pem)
        return cls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}, context)

    def sessions(self, plain: int, tls: int) -> Mapping[str, Session]:
        return {"plain": Session(HOST, plain), "TLS": TlsSession(HOST, tls, context=self.context)}


@contextmanager
def own(directory: Path, certificates: Certificates) -> Iterator[Broker]:
    """Run this project's broker for the length of a `with` block."""
    plain, tls = free_ports(2)
    settings = {**certificates.settings, "listeners": f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{tls}"}
    broker = OwnBroker(directory / "own", settings, plain)
    try:
        broker.start()
        assert broker.process is not None
        check_owner(tls, broker.process.pid)
        yield Broker("pylogbroker", broker.process.pid, certificates.sessions(plain, tls))
    finally:
        broker.stop()


@contextmanager
def kafka(directory: Path, certificates: Certificates) -> Iterator[Broker]:
    """Run Apache Kafka for the length of a `with` block."""
    plain, tls, controller = free_ports(3)
    listeners = f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{tls}"
    settings = {
        **SETTINGS,
        **certificates.settings,
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{SINGLE_NODE['listener.security.protocol.map']},SSL:SSL",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    with KafkaBroker(directory / "kafka", settings, plain) as broker:
        assert broker.process is not None
        check_owner(tls, broker.process.pid)
        yield Broker("Apache Kafka", broker.process.pid, certificates.sessions(plain, tls))


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka and measure it as well.")
@click.option("--rounds", default=5, show_default=True, help="Measurements of each workload.")
@click.option("--warm-up", default=3, show_default=True, help="Runs of each workload before its measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Length of each measurement, relative to the default.")
@click.option("--quota-periods", default=3, show_default=True, help="Times 11 s for which a quota is used.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    with_kafka: bool,
    rounds: int,
    warm_up: int,
    scale: float,
    quota_periods: int,
    directory: Path | None,
    markdown: bool,
) -> None:
    """Measure the processor time of a broker with TLS and without, with ACLs and without, and a quota."""
    touch_memory()
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        parent = stack.enter_context(scratch(directory))
        certificates = Certificates.of(parent)
        brokers = [stack.enter_context(own(parent, certificates))]
        if with_kafka:
            brokers.append(stack.enter_context(kafka(parent, certificates)))
        gc.disable()
        for number in range(-warm_up, rounds):
            for name, measure in WORKLOADS.items():
                for broker in brokers if number % 2 else reversed(brokers):
                    for kind, session in broker.sessions.items():
                        figure = measure(broker, session, max(1, int(MEGABYTES * scale)))
                        if number >= 0:
                            figures[name, kind, broker.name].append(figure)
        seconds = WINDOWS_SECONDS * quota_periods
        times = [each for each in (QUOTA_SECONDS, seconds) if 0 < each <= seconds]
        within = [produce_within_quota(broker.sessions["plain"], times) for broker in brokers]
        acls = authorizer.measure(parent, rounds, warm_up, scale)
    head = ["work", "unit", *(broker.name for broker in brokers), *(["ratio", "wanted"] if with_kafka else [])]
    rows = [_row(name, kind, brokers, figures) for name in WORKLOADS for kind in ("plain", "TLS")]
    for number, until in enumerate(times):
        cells = [f"{figures_of_broker[number]:.3f}" for figures_of_broker in within]
        rows.append([f"quota of 1 MB/s, {until} s", "MB/s", *cells, *(["", "0.95 to 1.05"] if with_kafka else [])])
    console = Console()
    show(console, head, rows, markdown)
    show(console, ["work", "unit", "pylogbroker", "ratio", "wanted"], acls.rows(), markdown)


def _row(
    name: str, kind: str, brokers: Sequence[Broker], figures: Mapping[tuple[str, str, str], Sequence[float]]
) -> list[str]:
    medians = [statistics.median(figures[name, kind, broker.name]) for broker in brokers]
    cells = [f"{name}, {kind}", "ms/MB", *(f"{median:.3g}" for median in medians)]
    if len(medians) > 1:
        cells += [f"{medians[1] / medians[0]:.2f} x", f"{WANTED} x" if kind == "TLS" else ""]
    return cells


if __name__ == "__main__":
    main()
