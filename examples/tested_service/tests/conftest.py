from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from billing import INVOICES, ORDERS, REJECTED, Billing

from pylogbroker.testing import Kafka

DEADLINE_SECONDS = 60.0
QUICK_RETRIES = {  # the defaults suit production: tests with faults would wait for seconds
    "fetch.error.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "retry.backoff.ms": 10,
}


@attrs.define
class Shop:
    """The service's topics, and services on them."""

    kafka: Kafka
    prefix: str
    services: list[Billing] = attrs.field(factory=list)

    def start(self, **named: Any) -> Billing:
        """Start a service with more settings of librdkafka."""
        more = {name.replace("_", "."): value for name, value in named.items()}
        settings = {**self.kafka.broker.client_settings(), **QUICK_RETRIES, **more}
        self.services.append(Billing(settings, prefix=self.prefix))
        return self.services[-1]

    def order(self, number: int = 1, country: str = "de", *items: tuple[str, int]) -> None:
        lines = [{"price": price, "count": count} for price, count in items or [("10.00", 1)]]
        self.send(json.dumps({"id": number, "country": country, "items": lines}))

    def send(self, order: str | None) -> None:
        self.kafka.produce(self.prefix + ORDERS, order)

    @property
    def invoices(self) -> list[Any]:
        return self._answers(INVOICES)

    @property
    def rejected(self) -> list[str]:
        return [each["reason"] for each in self._answers(REJECTED)]

    def _answers(self, topic: str) -> list[Any]:
        self._wait_for_commits()
        found = self.kafka.records(self.prefix + topic, isolation_level="read_committed")
        return [json.loads(each.value) for each in found]

    def _wait_for_commits(self) -> None:
        """Wait for transactions that end: Apache Kafka answers a commit before others can read the records."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(each.startswith(self.prefix) for each in self.kafka.broker.open_transactions):
            assert time.monotonic() < deadline, "a transaction is open"
            time.sleep(0.01)


@pytest.fixture
def new_shop(kafka: Kafka) -> Iterator[Callable[[], Shop]]:
    made: list[Shop] = []

    def make() -> Shop:
        made.append(Shop(kafka, f"{kafka.new_name('shop')}-"))
        for topic in (ORDERS, INVOICES, REJECTED):
            kafka.topic(made[-1].prefix + topic)
        return made[-1]

    yield make
    for shop in made:
        for service in shop.services:
            service.close()


@pytest.fixture
def shop(new_shop: Callable[[], Shop]) -> Shop:
    return new_shop()
