"""End-to-end latency from a producer's socket to a consumer's, at a fixed rate.

The producer sends on a schedule, regardless of the broker; the consumer always has a fetch waiting. The process sleeps
in between, so that it takes no core from the broker.
"""

import select
import socket
import time

from benchmarks.driver import SCRATCH
from benchmarks.errors import BenchmarkError
from benchmarks.many_connections import Consumer

WAIT_SECONDS_MAX = 10.0


def end_to_end(producer: socket.socket, request: bytes, consumer: Consumer, rate: float) -> list[float]:
    """Send `request`, one record, `rate` times a second until the consumer has its records; return the times."""
    first = consumer.offset
    sent = _exchange(producer, request, consumer, rate)
    times, number = [], first
    for offset, arrival in consumer.arrivals:
        times += [arrival - sent[each - first] for each in range(number, offset)]
        number = offset
    return times


def _exchange(producer: socket.socket, request: bytes, consumer: Consumer, rate: float) -> list[float]:
    clock, sent, count = time.perf_counter, list[float](), consumer.end - consumer.offset
    consumer.sock.setblocking(False)
    consumer.start()
    begin = clock()
    while not consumer.done:
        now = clock()
        if len(sent) < count and now >= begin + len(sent) / rate:
            sent.append(now)
            producer.sendall(request)
        elif now > begin + count / rate + WAIT_SECONDS_MAX:
            raise BenchmarkError(f"only {consumer.offset} of {consumer.end} records have come")
        due = begin + len(sent) / rate if len(sent) < count else now + WAIT_SECONDS_MAX
        readable, _, _ = select.select([producer, consumer.sock], [], [], max(due - clock(), 0))
        if consumer.sock in readable:
            consumer.ready()
        if producer in readable:
            producer.recv_into(SCRATCH)
    return sent
