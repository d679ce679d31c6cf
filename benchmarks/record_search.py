"""`python -m benchmarks.record_search`: how fast the web UI's search looks at the records of a large topic.

A broker in a process of its own has a topic of five million JSON records of about 100 bytes, in four partitions. Each
search asks for the stream of the page, and for its next part as the page does, until the topic ends.

| column         | is                                                                                |
|----------------|-----------------------------------------------------------------------------------|
| first          | seconds from the request until the first match arrives, the median of the rounds  |
| records/s      | records that were looked at in a second                                           |
| of a processor | the same in a second of the broker's processor time, if other work disturbs       |
"""

import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import OwnBroker, exact_cpu_seconds, scratch
from benchmarks.driver import call
from benchmarks.errors import BenchmarkError
from benchmarks.requests import produce_request
from benchmarks.session import Session
from pylogbroker.records import Codec
from pylogbroker.records.columnar import encode
from tests.peers.port_owners import check_owner
from tests.peers.processes import free_ports

HOST = "127.0.0.1"
PARTITIONS = 4
BATCH_RECORDS = 500
RARE = 7
"""Number of the record, one of the oldest, that has a text of its own."""
START_MS = 1_700_000_000_000
STATES = ("paid", "open", "shipped")
SEARCHES = {
    "text needle-7": {"text": "needle-7"},
    'value.customer == "c-3"': {"where": 'value.customer == "c-3"'},
    'value.customer == "needle-7"': {"where": 'value.customer == "needle-7"'},
    'value.customer ~ "C-77"': {"where": 'value.customer ~ "C-77"'},
    "value.amount > 199.99": {"where": "value.amount > 199.99"},
    'value.status == "paid" and value.amount < 0.05': {"where": 'value.status == "paid" and value.amount < 0.05'},
    'value.status != "paid" and not exists value.items': {"where": 'value.status != "paid" and not exists value.items'},
    "not exists value.status": {"where": "not exists value.status"},
    "size < 50": {"where": "size < 50"},
}


@attrs.frozen
class Searched:
    """A whole search; `first` is None without a match."""

    first: float | None
    matches: int
    seconds: float
    processor: float


def fill(session: Session, topic: str, count: int, codec: Codec) -> None:
    """Write orders, the newest last; times grow by 100 ms a batch."""
    chance = random.Random(1)
    with session.connection() as sock:
        for number in range(0, count, BATCH_RECORDS):
            values = [order(chance, number + at) for at in range(min(BATCH_RECORDS, count - number))]
            records = encode(None, values, [START_MS + number // 5] * len(values), codec=codec)
            call(sock, produce_request(topic, [(number // BATCH_RECORDS % PARTITIONS, records)]))


def order(chance: random.Random, number: int) -> bytes:
    customer = chance.randrange(900) if number != RARE else f"needle-{number}"
    return b'{"order":%d,"customer":"%s","amount":%.2f,"status":"%s","items":[{"sku":"A-%d","n":2}]}' % (
        number,
        f"c-{customer}".encode() if number != RARE else str(customer).encode(),
        chance.randrange(20_000) / 100,
        STATES[chance.randrange(3)].encode(),
        chance.randrange(100),
    )


def search(pid: int, port: int, topic: str, **parameters: str) -> Searched:
    """Search the whole topic, part by part."""
    began, processor = time.monotonic(), exact_cpu_seconds(pid)
    first: float | None = None
    matches = 0
    address = f"/topics/{topic}/records/search?{urlencode(parameters)}"
    while address:
        event, data = "", {}
        for event, data in events(port, address):
            if event == "records":
                first = time.monotonic() - began if first is None else first
                matches += data["html"].count("<tr")
        if event not in ("rows", "bound", "end"):
            raise BenchmarkError(f"a search ends with {event}: {data}")
        address = data["more"] if event != "end" else ""
    return Searched(first, matches, time.monotonic() - began, exact_cpu_seconds(pid) - processor)


def events(port: int, address: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the events of a stream."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=60)) as connection:
        connection.request("GET", address)
        answer = connection.getresponse()
        if answer.status != 200:
            raise BenchmarkError(f"{address}: {answer.status} {answer.read()!r}")
        event = ""
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                yield event, json.loads(value)


@click.command()
@click.option("--records", default=5_000_000, show_default=True, help="Records of the topic.")
@click.option("--codec", default="NONE", show_default=True, type=click.Choice([codec.name for codec in Codec]))
@click.option("--rounds", default=3, show_default=True, help="Times that each search is made.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(records: int, codec: str, rounds: int, directory: Path | None, markdown: bool) -> None:
    """Measure searches over a large topic."""
    rows = []
    with scratch(directory) as parent:
        port, http_port = free_ports(2)
        settings = {"http.listeners": f"http://{HOST}:{http_port}", "log.retention.ms": "-1"}
        broker = OwnBroker(parent / "own", settings, port)
        try:
            broker.start()
            assert broker.process is not None
            pid = broker.process.pid
            check_owner(http_port, pid)
            session = Session(HOST, port)
            with session.topic(PARTITIONS) as topic:
                fill(session, topic, records, Codec[codec])
                for name, parameters in SEARCHES.items():
                    searches = [search(pid, http_port, topic, **parameters) for _ in range(rounds)]
                    firsts = [searched.first for searched in searches if searched.first is not None]
                    seconds = statistics.median(searched.seconds for searched in searches)
                    processor = statistics.median(searched.processor for searched in searches)
                    rows.append(
                        [
                            name,
                            f"{searches[0].matches:,}",
                            f"{statistics.median(firsts):.2f} s" if firsts else "",
                            f"{records / seconds:,.0f}",
                            f"{records / processor:,.0f}",
                        ]
                    )
        finally:
            broker.stop()
    show(Console(), ["search", "matches", "first", "records/s", "of a processor"], rows, markdown)


if __name__ == "__main__":
    main()
