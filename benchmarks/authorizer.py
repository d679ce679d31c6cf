"""Cost of an authorizer with many ACLs for single records.

Three brokers alternate: one with an authorizer, and two equal ones without. The ratio of the equal ones shows how much
two measurements of the same differ. Without an authorizer, the broker has no check in its handlers at all.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from benchmarks.brokers import TICKS, OwnBroker, Running
from benchmarks.driver import Block, call, pump
from benchmarks.requests import acls_created, create_acls_request, produce_request
from benchmarks.session import expect, try_produce
from benchmarks.workloads import SINGLE
from pylogbroker.wire.messages.create_acls import AclCreation

ACLS = 1000
ACLS_OF_REQUEST = 250
RECORDS = 40_000
IN_FLIGHT = 64
WANTED = 0.95
AUTHORIZER: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # of the cluster, so that the load generator creates topics and ACLs
}
_ALLOW, _TOPIC, _ALL, _READ = 3, 2, 2, 3
_LITERAL, _PREFIXED = 3, 4


@attrs.frozen
class Costs:
    """Microseconds of the broker for a record, in each round: with ACLs, without, and without once more."""

    rounds: Sequence[tuple[float, float, float]]

    def rows(self) -> list[list[str]]:
        """Return what was measured: work, unit, figure, ratio, wanted ratio."""
        on, off, _ = (statistics.median(each) for each in zip(*self.rounds, strict=True))
        ratio = statistics.median(without / with_acls for with_acls, without, _ in self.rounds)
        equal = statistics.median(again / without for _, without, again in self.rounds)
        return [
            ["single records, no authorizer", "us/record", f"{off:.3g}", f"{equal:.3f} x for itself", ""],
            [f"single records, {ACLS:,} ACLs", "us/record", f"{on:.3g}", f"{ratio:.3f} x", f"{WANTED} x"],
        ]


def acls() -> list[AclCreation]:
    """Return the load generator's ACL, which is for a prefix, and those of others, half of them for prefixes."""
    own = AclCreation(_TOPIC, "benchmark-", _PREFIXED, "User:ANONYMOUS", "*", _ALL, _ALLOW)
    others = [
        AclCreation(
            _TOPIC, f"topic-{number}", (_LITERAL, _PREFIXED)[number % 2], f"User:{number % 50}", "*", _READ, _ALLOW
        )
        for number in range(ACLS - 1)
    ]
    return [own, *others]


def create_acls(broker: Running) -> None:
    with broker.session.connection() as sock:
        wanted = acls()
        for first in range(0, len(wanted), ACLS_OF_REQUEST):
            part = wanted[first : first + ACLS_OF_REQUEST]
            expect(acls_created(call(sock, create_acls_request(part))), [0] * len(part), "ACLs")


def produce(broker: Running, count: int) -> float:
    """Produce single records; return the broker's microseconds for each."""
    with broker.session.topic() as topic, broker.session.connection() as sock:
        request = produce_request(topic, [(0, SINGLE.build())])
        size = try_produce(sock, request, [0])
        begin = broker.cpu_seconds()
        pump(sock, Block.of([request]), count, IN_FLIGHT, size)
        used = max(broker.cpu_seconds() - begin, 1 / TICKS)
        expect(broker.session.end_offsets(topic), [count + 1], "log end")
    return used * 1e6 / count


@contextmanager
def _running(directory: Path, settings: Mapping[str, str]) -> Iterator[Running]:
    broker = OwnBroker(directory, settings)
    try:
        broker.start()
        yield broker.running
    finally:
        broker.stop()


def measure(parent: Path, rounds: int, warm_up: int, scale: float) -> Costs:
    """Measure the brokers alternately, in changing order."""
    count = max(1, int(RECORDS * scale))
    found: list[tuple[float, float, float]] = []
    with ExitStack() as stack:
        kinds = {"on": AUTHORIZER, "off": {}, "again": {}}
        brokers = {
            name: stack.enter_context(_running(parent / f"authorizer-{name}", settings))
            for name, settings in kinds.items()
        }
        create_acls(brokers["on"])
        for number in range(-warm_up, rounds):
            order = list(brokers) if number % 2 else list(reversed(brokers))
            figures = {name: produce(brokers[name], count) for name in order}
            if number >= 0:
                found.append((figures["on"], figures["off"], figures["again"]))
    return Costs(found)
