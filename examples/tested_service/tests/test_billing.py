"""Tests of the service's answers and of what it does when Kafka fails."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from billing import VAT
from confluent_kafka import KafkaException

COUNTRIES = sorted(VAT)


@pytest.mark.parametrize("count", range(1, 11))
@pytest.mark.parametrize("country", COUNTRIES)
@pytest.mark.parametrize("price", ["0.01", "9.99", "100.00", "1234.56"])
def test_an_invoice(shop: Any, price: str, country: str, count: int) -> None:
    shop.order(7, country, (price, count))
    assert shop.start().run(1) == 1
    total = (Decimal(price) * count * (1 + VAT[country])).quantize(Decimal("0.01"))
    assert shop.invoices == [{"order": 7, "total": str(total)}]
    assert shop.rejected == []


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (None, "not an order"),
        ("", "not an order"),
        ("{", "not an order"),
        ("[]", "not an order"),
        ('{"id": 1}', "not an order"),
        ('{"id": 1, "items": [{"price": "x", "count": 1}]}', "not an order"),
        ('{"id": 1, "items": [{"price": "1", "count": 1}]}', "no VAT is known for None"),
        ('{"id": 1, "items": [{"price": "1", "count": 1}], "country": "xx"}', "no VAT is known for 'xx'"),
        ('{"id": 1, "items": [], "country": "de"}', "nothing to pay"),
        ('{"id": 1, "items": [{"price": "-1", "count": 1}], "country": "de"}', "nothing to pay"),
    ],
)
def test_a_rejected_order(shop: Any, order: str | None, reason: str) -> None:
    shop.send(order)
    shop.order(2)
    assert shop.start().run(2) == 2
    [found] = shop.rejected
    assert found.startswith(reason)
    assert [each["order"] for each in shop.invoices] == [2]


@pytest.mark.parametrize("count", [10, 100, 500])
def test_many_orders(shop: Any, count: int) -> None:
    for number in range(10):
        shop.order(number)
    for _ in range(count // 10 - 1):
        shop.order(0)
    expected = 10 + count // 10 - 1
    assert shop.start().run(expected) == expected
    assert len(shop.invoices) == expected


@pytest.mark.parametrize("stops", range(1, 11))
def test_a_restart_bills_nothing_twice(shop: Any, stops: int) -> None:
    for number in range(stops + 1):
        shop.order(number)
    first = shop.start()
    assert first.run(stops) == stops
    first.close()
    shop.services.clear()
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == list(range(stops + 1))


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("Produce", "NOT_ENOUGH_REPLICAS"),
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("AddOffsetsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_errors_that_pass(shop: Any, api: str, error: str, times: int) -> None:
    shop.order(3)
    fault = shop.kafka.faults.add(api=api, error=error, times=times, topic=_topic(shop, api))
    # librdkafka joins a group again when it has new metadata
    assert shop.start(topic_metadata_refresh_interval_ms=250).run(1) == 1
    assert [each["order"] for each in shop.invoices] == [3]
    assert fault.hits >= 1


def _topic(shop: Any, api: str) -> str | None:
    return {"Produce": f"{shop.prefix}invoices", "Fetch": f"{shop.prefix}orders"}.get(api)


@pytest.mark.parametrize("api", ["Produce", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn"])
@pytest.mark.parametrize("close", ["before", "after"])
def test_a_lost_connection(shop: Any, api: str, close: str) -> None:
    shop.order(4)
    shop.kafka.faults.add(api=api, close=close, times=1)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [4]


@pytest.mark.parametrize("api", ["Produce", "TxnOffsetCommit", "EndTxn"])
def test_an_answer_that_is_lost_after_the_work(shop: Any, api: str) -> None:
    shop.order(4)
    error = "REQUEST_TIMED_OUT" if api == "Produce" else "COORDINATOR_NOT_AVAILABLE"
    shop.kafka.faults.add(api=api, error=error, after=True, topic=_topic(shop, api), must_fire=True)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [4]


@pytest.mark.parametrize("release", ["2.5", "2.8", "3.0", "3.5"])
def test_an_older_broker(shop: Any, release: str) -> None:
    shop.order(4)
    shop.kafka.faults.cap_versions(release)
    assert shop.start().run(1) == 1
    shop.kafka.faults.cap_versions()
    assert [each["order"] for each in shop.invoices] == [4]


@pytest.mark.parametrize("later", [1, 2, 5, 10, 20])
def test_orders_that_come_later(shop: Any, later: int) -> None:
    service = shop.start()
    shop.order(0)
    assert service.run(1) == 1
    for number in range(1, later + 1):
        shop.order(number)
    assert service.run(later) == later
    assert [each["order"] for each in shop.invoices] == list(range(later + 1))


@pytest.mark.parametrize("latency", [0.01, 0.05])
def test_a_slow_network(shop: Any, latency: float) -> None:
    shop.order(4)
    shop.kafka.faults.network.shape(latency=latency)
    assert shop.start().run(1) == 1
    shop.kafka.faults.network.heal()
    assert [each["order"] for each in shop.invoices] == [4]


def test_a_leader_moves(shop: Any) -> None:
    shop.order(4)
    service = shop.start()
    assert service.run(1) == 1
    shop.order(5)
    shop.kafka.faults.cluster.move_leader(f"{shop.prefix}orders", to=7)
    assert service.run(1) == 1
    assert [each["order"] for each in shop.invoices] == [4, 5]


def test_a_rebalance_while_it_works(shop: Any) -> None:
    shop.order(4)
    service = shop.start()
    assert service.run(1) == 1
    shop.kafka.faults.groups.rebalance(f"{shop.prefix}billing")
    shop.order(5)
    assert service.run(1) == 1
    assert [each["order"] for each in shop.invoices] == [4, 5]


def test_a_second_instance_fences_the_first(shop: Any) -> None:
    shop.order(4)
    first = shop.start()
    assert first.run(1) == 1
    second = shop.start()
    shop.order(5)
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        first.run(1)
    first.close()
    assert second.run(1) == 1
    assert [each["order"] for each in shop.invoices] == [4, 5]


def test_shops_share_nothing(new_shop: Any) -> None:
    shops = [new_shop() for _ in range(2)]
    for number, each in enumerate(shops):
        each.order(number)
    assert [each.start().run(1) for each in shops] == [1, 1]
    assert [[invoice["order"] for invoice in each.invoices] for each in shops] == [[0], [1]]


def test_nothing_is_billed_without_orders(shop: Any) -> None:
    assert shop.start().run(1, seconds=0.2) == 0
    assert shop.invoices == []


@pytest.mark.kafka_broker  # of its own: time never goes back
@pytest.mark.parametrize("duration", ["1h", "1d", "6d"])
def test_orders_of_a_weekend_are_billed(shop: Any, duration: str) -> None:
    shop.order(5)
    shop.kafka.clock.advance(duration)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [5]


@pytest.mark.kafka_broker
def test_orders_expire_after_a_week(shop: Any) -> None:
    shop.order(6)
    shop.kafka.clock.advance("8d")
    shop.order(7)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [7]


@pytest.mark.kafka_broker(users={"billing": "secret"}, tls=True)
def test_with_passwords_and_tls(shop: Any) -> None:
    shop.order(8)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [8]


@pytest.mark.kafka_broker(brokers=3, default_replication_factor=3, min_insync_replicas=2)
def test_on_three_brokers(shop: Any) -> None:
    shop.order(9)
    assert shop.start().run(1) == 1
    assert [each["order"] for each in shop.invoices] == [9]
