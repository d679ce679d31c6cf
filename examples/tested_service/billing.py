"""Billing: reads orders as JSON, and writes an invoice, or the reason for none, in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

ORDERS, INVOICES, REJECTED = "orders", "invoices", "rejected"
ATTEMPTS = 5
VAT = {"de": Decimal("0.19"), "fr": Decimal("0.20"), "ch": Decimal("0.081")}


class Rejected(Exception):
    """An order that cannot be billed; the message says why."""


def invoice(order: bytes) -> dict[str, Any]:
    """Return the invoice for an order; raise Rejected."""
    try:
        fields = json.loads(order)
        net = sum(Decimal(item["price"]) * item["count"] for item in fields["items"])
    except (ValueError, KeyError, TypeError, InvalidOperation) as error:
        raise Rejected(f"not an order: {error!r}") from None
    if fields.get("country") not in VAT:
        raise Rejected(f"no VAT is known for {fields.get('country')!r}")
    if net <= 0:
        raise Rejected("nothing to pay")
    total = (net * (1 + VAT[fields["country"]])).quantize(Decimal("0.01"))
    return {"order": fields["id"], "total": str(total)}


def _again(call: Callable[[], object]) -> None:
    """Repeat a call of a transaction whose error lets it, such as a connection that was lost."""
    for left in reversed(range(ATTEMPTS)):
        try:
            call()
            return
        except KafkaException as error:
            if not (left and error.args[0].retriable()):
                raise


class Billing:
    """Bills orders with the settings of librdkafka; `instance` is lasting: a new one fences the old one."""

    def __init__(self, settings: dict[str, Any], instance: str = "billing-1", prefix: str = "") -> None:
        group = {"group.id": f"{prefix}billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._prefix = prefix
        self._producer = Producer({**settings, "transactional.id": prefix + instance, "transaction.timeout.ms": 60_000})
        self._consumer = Consumer({**settings, **group, "isolation.level": "read_committed"})
        self._consumer.subscribe([prefix + ORDERS])
        self._producer.init_transactions(60)

    def run(self, count: int, seconds: float = 60.0) -> int:
        """Bill up to `count` orders; return how many came."""
        done = 0
        while done < count:
            orders = [each for each in self._consumer.consume(count - done, seconds) if each.error() is None]
            if not orders:
                break
            self._bill(orders)
            done += len(orders)
        return done

    def close(self) -> None:
        self._consumer.close()

    def _bill(self, orders: list[Message]) -> None:
        self._producer.begin_transaction()
        for order in orders:
            self._answer(order)
        offsets = {(each.topic(), each.partition()): each.offset() + 1 for each in orders}
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        group = self._consumer.consumer_group_metadata()
        _again(lambda: self._producer.send_offsets_to_transaction(positions, group, 60))
        _again(lambda: self._producer.commit_transaction(60))

    def _answer(self, order: Message) -> None:
        try:
            topic, answer = INVOICES, invoice(order.value() or b"")
        except Rejected as error:
            topic, answer = REJECTED, {"reason": str(error)}
        self._producer.produce(self._prefix + topic, json.dumps(answer).encode(), order.key())
