"""Records of a shop that does not exist, for `pylogbroker demo`: as many as a small one has in some minutes.

topic      key           value                                     written
---------  ------------  ----------------------------------------  ---------------------------
orders     customer      {"order", "customer", "items", "total"}   ORDERS_PER_SECOND
payments   order         {"order", "amount", "state"}              one for each order, later
clicks     none          a line of a web server's log              CLICKS_PER_SECOND
customers  customer      {"name", "city", "orders"}                at the customer's orders
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import attrs

ORDERS_PER_SECOND: Final = 10
CLICKS_PER_SECOND: Final = 50
_CUSTOMERS: Final = ("Ada", "Björk", "Chidi", "Dilnoza", "Emre", "Fatou", "Grażyna", "Hiro", "Iris", "João")
_CITIES: Final = ("Aarhus", "Bamako", "Kraków", "Kyoto", "Porto")
_GOODS: Final = {"tea": "4.20", "coffee": "6.90", "cup": "12.00", "pot": "29.50", "biscuits": "3.35"}
_PAGES: Final = ("/", "/teas", "/teas/assam", "/cups", "/basket", "/contact")
_UNPAID_MAX: Final = 30


@attrs.frozen
class SampleRecord:
    """A record; `headers` are names and values."""

    topic: str
    key: str | None
    value: str
    headers: tuple[tuple[str, bytes], ...] = ()


class Shop:
    """Makes records; two shops with the same seed make the same ones at the same times."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._orders: Counter[str] = Counter()
        self._number = 0
        self._unpaid: deque[tuple[str, str]] = deque()

    def records(self, now: float, orders: int, clicks: int) -> Iterator[SampleRecord]:
        """Yield so many orders and clicks of a moment, in seconds since 1970, and what follows from the orders."""
        for _ in range(orders):
            yield from self._order()
        while len(self._unpaid) > _UNPAID_MAX:
            yield self._payment(*self._unpaid.popleft())
        for _ in range(clicks):
            yield self._click(now)

    def _order(self) -> Iterator[SampleRecord]:
        self._number += 1
        order, customer = f"o-{self._number}", self._random.choice(_CUSTOMERS)
        items = dict(Counter(self._random.choices(tuple(_GOODS), k=self._random.randint(1, 4))))
        cents = sum(int(_GOODS[name].replace(".", "")) * count for name, count in items.items())
        total = f"{cents // 100}.{cents % 100:02}"
        self._orders[customer] += 1
        self._unpaid.append((order, total))
        value = {"order": order, "customer": customer, "items": items, "total": total}
        yield SampleRecord("orders", customer, _json(value), (("source", b"web" if self._number % 3 else b"app"),))
        city = _CITIES[_CUSTOMERS.index(customer) % len(_CITIES)]
        profile = {"name": customer, "city": city, "orders": self._orders[customer]}
        yield SampleRecord("customers", customer, _json(profile))

    def _payment(self, order: str, amount: str) -> SampleRecord:
        state = "rejected" if self._random.random() < 0.05 else "paid"
        return SampleRecord("payments", order, _json({"order": order, "amount": amount, "state": state}))

    def _click(self, now: float) -> SampleRecord:
        time = datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
        status = self._random.choices((200, 304, 404, 500), (90, 6, 3, 1))[0]
        address = f"192.0.2.{self._random.randint(1, 254)}"
        page, size = self._random.choice(_PAGES), self._random.randint(300, 9000)
        return SampleRecord("clicks", None, f'{address} - - [{time}] "GET {page} HTTP/1.1" {status} {size}')


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
