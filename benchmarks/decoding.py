"""`python -m benchmarks.decoding`: records per second from fetched bytes to Arrow, compared with other decoders.

    python -m benchmarks.decoding

Each decoder gets the same record batches, checks their CRCs and makes an Arrow record batch of keys, values, partition,
offsets and timestamps, as a Spark task does with a fetch. The others decode record by record, and Arrow gets lists. The
decoders alternate, in changing order, in one process and one thread, and its processor time is measured. Each fetch has
just been copied, as it would be from a socket.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import aiokafka.record.memory_records
import attrs
import click
import kafka.record.memory_records
import pyarrow as pa
from rich.console import Console

from benchmarks.broker import show
from benchmarks.errors import BenchmarkError
from benchmarks.machine import touch_memory
from pylogbroker.records import Codec, entries
from pylogbroker.records.columnar import encode
from pylogbroker.table.decoder import TYPES, Decoder

TOPIC, PARTITION = "clicks", 3
COLUMNS = ("key", "value", "partition", "offset", "timestamp")
SCHEMA = pa.schema([(name, TYPES[name]) for name in COLUMNS])
MEGABYTES = 32
FETCHED = 8 << 20  # bytes of one fetch, the unit of work for the other decoders
FIRST_TIMESTAMP = 1_700_000_000_000
SPREAD = 0.5  # relative deviation of the values' lengths from their mean

Row = tuple[bytes | None, bytes | None, int, int]


@attrs.frozen
class Work:
    """Data to decode, and the speed wanted."""

    title: str
    value_bytes: int
    batch_bytes: int
    codec: Codec = Codec.NONE
    wanted: float | None = None

    def fetches(self, megabytes: float) -> "list[Fetch]":
        """Return record batches with keys of ten bytes and values of random bytes and lengths."""
        source = random.Random(5)
        per_batch = max(self.batch_bytes // self.value_bytes, 1)
        found, batches, first, offset = [], [], 0, 0
        total = max(int(megabytes * (1 << 20)) // self.value_bytes, 1)
        while offset < total:
            batches.append(self._batch(source, offset, per_batch))
            offset += per_batch
            if offset - first >= FETCHED // self.value_bytes or offset >= total:
                found.append(Fetch(b"".join(batches), first, offset))
                batches, first = [], offset
        return found

    def _batch(self, source: random.Random, offset: int, count: int) -> bytes:
        low, high = int(self.value_bytes * (1 - SPREAD)), int(self.value_bytes * (1 + SPREAD))
        values = [self._value(source, source.randint(low, high)) for _ in range(count)]
        keys = [b"%010d" % number for number in range(offset, offset + count)]
        times = [FIRST_TIMESTAMP + number // 20 for number in range(offset, offset + count)]
        return encode(keys, values, times, base_offset=offset, codec=self.codec)

    def _value(self, source: random.Random, size: int) -> bytes:
        """Return random bytes that compress to about half."""
        return source.randbytes(size) if self.codec is Codec.NONE else source.randbytes(size // 2).hex().encode()


@attrs.frozen
class Fetch:
    """Fetched bytes, and their offsets."""

    data: bytes
    first: int
    end: int


def own(fetch: Fetch) -> Iterator[pa.RecordBatch]:
    decoder = Decoder(TOPIC, PARTITION, COLUMNS)
    return (part.rows for part in decoder.decode(fetch.data, fetch.first, fetch.end))


def one_by_one(fetch: Fetch) -> Iterator[pa.RecordBatch]:
    """Decode as the broker does where it has to decode records."""

    def rows() -> Iterator[Row]:
        for entry in entries(fetch.data):
            entry.check()
            yield from ((each.key, each.value, each.offset, each.timestamp) for each in entry.records())

    yield arrow(rows())


def by_memory_records(factory: Callable[[bytes], Any]) -> Callable[[Fetch], Iterator[pa.RecordBatch]]:
    """Return a decoder for a Python client with kafka-python's interface."""

    def decode(fetch: Fetch) -> Iterator[pa.RecordBatch]:
        def rows() -> Iterator[Row]:
            found = factory(fetch.data)
            while found.has_next():
                batch = found.next_batch()
                if not batch.validate_crc():
                    raise BenchmarkError("a decoder finds a wrong CRC")
                yield from ((each.key, each.value, each.offset, each.timestamp) for each in batch)

        yield arrow(rows())

    return decode


def arrow(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the rows as an Arrow record batch, by way of lists."""
    keys, values, offsets, times = zip(*rows, strict=True)
    milliseconds = pa.array(times, pa.timestamp("ms", tz="UTC"))
    arrays = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.repeat(pa.scalar(PARTITION, pa.int32()), len(offsets)),
        pa.array(offsets, pa.int64()),
        milliseconds.cast(TYPES["timestamp"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


OWN = "this decoder"
DECODERS: Mapping[str, Callable[[Fetch], Iterator[pa.RecordBatch]]] = {
    OWN: own,
    "one by one": one_by_one,
    "aiokafka (C)": by_memory_records(aiokafka.record.memory_records.MemoryRecords),
    "kafka-python": by_memory_records(kafka.record.memory_records.MemoryRecords),
}

WORK = (
    Work("100 B, batches of 16 KB", 100, 16_000, wanted=8e6),
    Work("100 B, batches of 100 KB", 100, 100_000, wanted=8e6),
    Work("1 KB, batches of 16 KB", 1000, 16_000, wanted=3e6),
    Work("1 KB, batches of 100 KB", 1000, 100_000, wanted=3e6),
    Work("100 B, lz4", 100, 100_000, Codec.LZ4),
    Work("100 B, zstd", 100, 100_000, Codec.ZSTD),
)


def measure(decode: Callable[[Fetch], Iterator[pa.RecordBatch]], fetches: list[Fetch]) -> float:
    """Return the records per second of processor time, from bytes just written."""
    rows, elapsed = 0, 0.0
    for fetch in fetches:
        come = attrs.evolve(fetch, data=bytes(memoryview(fetch.data)))
        start = time.process_time()
        for batch in decode(come):
            rows += batch.num_rows
        elapsed += time.process_time() - start
    if rows != fetches[-1].end:
        raise BenchmarkError(f"{rows} of {fetches[-1].end} records were decoded")
    return rows / elapsed


def agree(fetch: Fetch) -> None:
    """BenchmarkError unless all decoders give the same result."""
    own_rows = pa.Table.from_batches(DECODERS[OWN](fetch), SCHEMA).combine_chunks()
    for name, decode in DECODERS.items():
        if not pa.Table.from_batches(decode(fetch), SCHEMA).equals(own_rows):
            raise BenchmarkError(f"{name} finds other records")


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Measurements of each figure.")
@click.option("--warm-up", default=1, show_default=True, help="Runs before the measurements.")
@click.option("--scale", default=1.0, show_default=True, help="Number of records, relative to the default.")
@click.option("--only", multiple=True, help="Run only work with this in its title; may be repeated.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--verbose", is_flag=True, help="Print every measurement.")
def main(rounds: int, warm_up: int, scale: float, only: tuple[str, ...], markdown: bool, verbose: bool) -> None:
    """Compare this project's decoder to Arrow with others."""
    console = Console()
    pa.set_cpu_count(1)
    touch_memory()
    rows = []
    for work in WORK:
        if only and not any(part in work.title for part in only):
            continue
        fetches = work.fetches(MEGABYTES * scale)
        agree(fetches[0])
        rates = compare(fetches, warm_up, rounds, console if verbose else None)
        rows.append(cells(work, rates))
    show(console, ["records", "unit", *DECODERS, "to the best other", "wanted"], rows, markdown)
    print(f"With pyarrow {pa.__version__}.")


def compare(fetches: list[Fetch], warm_up: int, rounds: int, console: Console | None) -> dict[str, float]:
    results: dict[str, list[float]] = {name: [] for name in DECODERS}
    for number in range(-warm_up, rounds):
        for name in DECODERS if number % 2 else reversed(list(DECODERS)):
            rate = measure(DECODERS[name], fetches)
            if number >= 0:
                results[name].append(rate)
            if console:
                console.print(f"{name}: {rate:,.0f} records/s")
    return {name: statistics.median(rates) for name, rates in results.items()}


def cells(work: Work, rates: Mapping[str, float]) -> list[str]:
    best_other = max(rate for name, rate in rates.items() if name != OWN)
    wanted = f"{work.wanted:,.0f}" if work.wanted else ""
    figures = [f"{rate:,.0f}" for rate in rates.values()]
    return [work.title, "records/s", *figures, f"{rates[OWN] / best_other:.1f} x", wanted]


if __name__ == "__main__":
    main()
