"""The sample data of the demonstration: what it says of itself adds up."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

from pylogbroker.cli.sample_data import SampleRecord, Shop

PRICES = {"tea": "4.20", "coffee": "6.90", "cup": "12.00", "pot": "29.50", "biscuits": "3.35"}
NOW = 1_700_000_000.0


def values(records: list[SampleRecord], topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.topic == topic]


def test_orders_cost_what_their_items_cost() -> None:
    orders = values(list(Shop().records(NOW, 200, 0)), "orders")
    assert len(orders) == 200
    for order in orders:
        assert Decimal(order["total"]) == sum(Decimal(PRICES[name]) * count for name, count in order["items"].items())


def test_each_order_is_paid_once_and_later() -> None:
    shop = Shop()
    records = [record for _ in range(10) for record in shop.records(NOW, 50, 0)]
    orders, payments = values(records, "orders"), values(records, "payments")
    assert len(payments) == len(orders) - 30
    for order, payment in zip(orders, payments, strict=False):
        assert (order["order"], order["total"]) == (payment["order"], payment["amount"])
    assert {payment["state"] for payment in payments} == {"paid", "rejected"}


def test_customers_have_the_number_of_their_orders() -> None:
    records = list(Shop().records(NOW, 300, 0))
    last = {customer["name"]: customer["orders"] for customer in values(records, "customers")}
    assert last == Counter(order["customer"] for order in values(records, "orders"))


def test_clicks_are_lines_of_a_web_server() -> None:
    [*clicks] = Shop().records(NOW, 0, 100)
    assert len(clicks) == 100
    for click in clicks:
        assert click.topic == "clicks"
        assert ' - - [14/Nov/2023:22:13:20 +0000] "GET /' in click.value


def test_the_same_seed_makes_the_same_records() -> None:
    first, second, other = (list(Shop(seed).records(NOW, 50, 50)) for seed in (1, 1, 2))
    assert first == second != other
