"""`python -m benchmarks.archive`: the effect on producers of a consumer that reads records from the archive.

    python -m benchmarks.archive                      # the archive is a directory beside the data
    python -m benchmarks.archive --directory /data    # both on the disk of that directory

A topic is written, and archived but for its newest segment. Producers then send batches to another topic at a fixed
rate: first alone, then while another process reads the archived topic from its start. The cache of the broker is much
smaller than that. Times and processes are those of `benchmarks.cold`.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, own, scratch
from benchmarks.cold import WARM_UP_SECONDS, OldData, Round, measure, paced, producers, rows_of
from benchmarks.driver import Block, pump
from benchmarks.errors import BenchmarkError
from benchmarks.requests import produce_request
from benchmarks.session import try_produce
from benchmarks.workloads import MEGABYTE_OF_KILOBYTES

ARCHIVED = {"remote.storage.enable": "true", "segment.bytes": "33554432", "local.retention.bytes": "1"}
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "0",
}
WAIT_SECONDS_MAX = 120.0


@click.command()
@click.option("--gigabytes", default=0.5, show_default=True, help="Amount of archived data.")
@click.option("--rate", default=1000, show_default=True, help="Batches of 16 KB produced per second.")
@click.option("--seconds", default=3.0, show_default=True, help="Length of the measurement of producers alone.")
@click.option("--rounds", default=5, show_default=True, help="Number of measurements.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(gigabytes: float, rate: int, seconds: float, rounds: int, directory: Path | None, markdown: bool) -> None:
    """Measure producers with and without a consumer that reads from the archive at the same time."""
    gc.disable()
    with ExitStack() as stack:
        place = stack.enter_context(scratch(directory))
        broker = stack.enter_context(own(directory, SETTINGS | {"remote.log.storage": f"directory:{place}"}))
        topic = stack.enter_context(archived_data(broker, int(gigabytes * 1e9)))
        with producers(broker.session) as (sockets, requests):
            paced(sockets, requests, rate, WARM_UP_SECONDS)
        pairs: list[tuple[Round, Round]] = [measure(broker, topic, rate, seconds) for _ in range(rounds)]
        rows = [
            [cell.replace("a cold reader", "a reader of the archive") for cell in row] for row in rows_of(broker, pairs)
        ]
    head = ["broker", "producers", "p50 ms", "p99 ms", "p99 ratio", "wanted", "MB/s read"]
    show(Console(), head, rows, markdown)


@contextmanager
def archived_data(broker: Running, size: int) -> Iterator[OldData]:
    """Write a topic, and wait until it is archived, for the length of a `with` block."""
    records = MEGABYTE_OF_KILOBYTES.build()
    count = size // len(records)
    with broker.session.topic(settings=ARCHIVED) as topic, broker.session.connection() as sock:
        request = produce_request(topic, [(0, records)])
        answer_size = try_produce(sock, request, [0])
        pump(sock, Block.of([request]), count - 1, 5, answer_size)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while _local_bytes(broker, topic) > 2 * int(ARCHIVED["segment.bytes"]):
            if time.monotonic() > deadline:
                raise BenchmarkError("the topic is not archived")
            time.sleep(0.1)
        yield OldData(topic, (), records, count)


def _local_bytes(broker: Running, topic: str) -> int:
    if broker.data is None:
        raise BenchmarkError("the files of a broker elsewhere cannot be seen")
    return sum(path.stat().st_size for path in broker.data.glob(f"**/{topic}*/*.kafka"))


if __name__ == "__main__":
    main()
