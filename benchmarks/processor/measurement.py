"""Process that measures works, and prints their figures as JSON; `benchmarks.processor.runs` starts it."""

import gc
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import attrs

from benchmarks.brokers import scratch
from benchmarks.processor.figures import Figures
from benchmarks.processor.floor import floor
from benchmarks.processor.reactor_broker import ReactorBroker, reactor_broker
from benchmarks.processor.works import WORKS, Exchange, Iterate, Stopwatch, Work

SLICES = 8
SAMPLE_REQUESTS = 200
SAMPLE_EXCHANGES_MAX = 50
SAMPLE_BYTES_MAX = 4 << 20
WRITTEN_BYTES_MAX = 256 << 20
"""Limit for each work, of broker and floor: the files are mostly in memory."""


@attrs.define
class Sampler:
    """Takes samples of an exchange: each is the mean of some requests, in microseconds."""

    exchange: Exchange
    iterate: Iterate
    samples: list[float] = attrs.field(factory=list)
    sent_bytes: int = 0

    def run(self, seconds: float) -> None:
        """Take at least one sample, and more until the time is over or the files are large."""
        end = time.monotonic() + seconds
        while True:
            self._sample()
            if time.monotonic() > end or self.sent_bytes > WRITTEN_BYTES_MAX:
                return

    def _sample(self) -> None:
        exchange = self.exchange
        most = min(SAMPLE_EXCHANGES_MAX, SAMPLE_REQUESTS // exchange.count, SAMPLE_BYTES_MAX // exchange.sent_bytes)
        repeats = max(1, most)
        stopwatch = Stopwatch(self.iterate)
        for _ in range(repeats):
            exchange.run(stopwatch)
        self.sent_bytes += repeats * exchange.sent_bytes
        self.samples.append(stopwatch.nanoseconds / 1000 / (repeats * exchange.count))


def measure(work: Work, broker: ReactorBroker, seconds: float, directory: Path) -> Figures:
    """Measure broker and floor in alternation: a machine changes its speed within seconds."""
    with ExitStack() as stack:
        exchange = broker.run(lambda: work.prepare(broker.session, stack))
        bare, iterate = stack.enter_context(floor(exchange, str(directory)))
        samplers = Sampler(exchange, broker.iterate), Sampler(bare, iterate)
        gc.collect()
        for _ in range(SLICES):
            for sampler in samplers:
                sampler.run(seconds / SLICES / len(samplers))
    return Figures.of(samplers[0].samples, samplers[1].samples)


def main() -> None:
    """Measure the works named by the arguments, after the seconds for each and the directory of the data."""
    seconds, parent, *names = sys.argv[1:]
    with scratch(Path(parent) if parent else None) as directory, reactor_broker(directory / "data") as broker:
        figures = {name: measure(WORKS[name], broker, float(seconds), directory) for name in names}
    print(json.dumps({name: attrs.asdict(found) for name, found in figures.items()}))


if __name__ == "__main__":
    main()
