"""Screenshots of every page, of a broker with topics, records, groups, users and an open transaction.

python -m tests.web.screenshots DIRECTORY      # all pages: light, dark and narrow; takes four minutes
python -m tests.web.screenshots --docs         # those of README and docs/web-ui.md; takes two minutes
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import click
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from PIL import Image

from tests.support.waiting import wait_until
from tests.web.browser import Browser, PageBroker, opened_browser
from tests.web.sample_data import ADMINISTERED, SETTINGS, administer

DOCS = Path(__file__).parents[2] / "docs"
_DARK: Final = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
_VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "light": ("--window-size=1280,1300",),
    "dark": ("--window-size=1280,1300", *_DARK),
    "narrow": ("--window-size=500,1300",),
}
_IN_DOCS: Final[tuple[tuple[str, str, dict[str, Any], int, str], ...]] = (
    ("web-ui", "topics/orders/records", {"at": "0:1", "where": "value.total > 100"}, 1280, "light"),
    ("web-ui-overview", "", {}, 1280, "dark"),
    ("web-ui-group", "groups/mailing", {}, 1280, "light"),
    ("web-ui-settings", "topics/orders/settings", {"edit": "retention.ms", "value": "2d"}, 1280, "dark"),
    ("web-ui-phone", "topics/orders/groups", {}, 390, "light"),
)
"""Name of the file, page, its parameters, width and colours."""
_COLOURS_MAX: Final = 64
_PAGES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("", {}),
    ("topics", {}),
    ("create-topic", {}),
    ("topics/orders/records", {"at": "0:1"}),
    ("topics/orders/records/new", {}),
    ("topics/orders/partitions", {}),
    ("topics/orders/groups", {}),
    ("topics/orders/settings", {"edit": "retention.ms", "value": "2d"}),
    ("topics/orders/delete", {}),
    ("style", {}),
    ("groups", {}),
    ("groups/mailing", {}),
    ("groups/billing/reset", {"to": "earliest"}),
    ("groups/billing/delete", {}),
    ("brokers", {}),
    ("brokers/reassignments", {}),
    ("brokers/1001/settings", {"search": "log.segment"}),
    ("access/users", {}),
    ("access/acls", {}),
    ("access/quotas", {}),
    ("transactions", {}),
    ("transactions/transfers", {}),
    ("topics/payments/producers", {}),
    ("faults", {}),
    ("faults/add", {}),
)
_SAMPLES: Final = 9


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--docs", is_flag=True, help="Take the pictures of the documents.")
def main(directory: Path | None, docs: bool) -> None:
    """Take screenshots."""
    if docs:
        with filled(SETTINGS) as broker, busy_clients(broker):
            wait_until(lambda: has_history(broker), 400)
            with opened_browser(broker, "--window-size=1280,860", "--hide-scrollbars") as browser:
                for name, page, parameters, width, colours in _IN_DOCS:
                    show(browser, width, colours)
                    browser.open(page, **parameters)
                    wait_until(lambda: "Searched" not in browser.text)
                    browser.save(DOCS / f"{name}.png")
                    shrink(DOCS / f"{name}.png")
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        with filled(ADMINISTERED) as broker, busy_clients(broker):
            administer(broker)
            wait_until(lambda: has_history(broker), 400)
            for name, options in _VARIANTS.items():
                with opened_browser(broker, *options) as browser:
                    take_all(browser, directory, name)


def show(browser: Browser, width: int, colours: str) -> None:
    """Let the next pages have a width and colours."""
    metrics = {"width": width, "height": 860, "deviceScaleFactor": 1, "mobile": False}
    features = {"features": [{"name": "prefers-color-scheme", "value": colours}]}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)  # type: ignore[no-untyped-call]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)  # type: ignore[no-untyped-call]


def shrink(picture: Path) -> None:
    """Write a picture again, with few colours: some 50 KB."""
    with Image.open(picture) as taken:
        few = taken.convert("RGB").quantize(_COLOURS_MAX, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


@contextmanager
def filled(settings: dict[str, str]) -> Iterator[PageBroker]:
    """Start a broker, and fill it."""
    with tempfile.TemporaryDirectory() as data:
        broker = PageBroker(Path(data), settings)
        broker.start()
        try:
            fill(broker)
            yield broker
        finally:
            broker.kill()


def fill(broker: PageBroker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap}
    topics = [NewTopic("clicks", 3, 1), NewTopic("orders", 6, 1), NewTopic("payments", 2, 1)]
    admin = AdminClient(servers)
    for created in admin.create_topics(topics).values():
        created.result(30)
    producer = Producer(servers)
    for number in range(400):
        order = {"order": 1000 + number, "customer": f"c-{number * 7 % 50}", "total": round(number * 1.37, 2)}
        headers = [("trace", f"{number:08x}".encode())]
        producer.produce("orders", json.dumps(order).encode(), f"c-{number * 7 % 50}".encode(), headers=headers)
        producer.produce("clicks", f"/page/{number % 12}".encode(), f"visitor-{number % 9}".encode())
        producer.produce("payments", number.to_bytes(8, "big"), bytes((number % 256, 0, 255)))
    producer.flush(30)
    consumer = Consumer({**servers, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", index, 20 + index) for index in range(6)], asynchronous=False)
    consumer.close()


@contextmanager
def busy_clients(broker: PageBroker) -> Iterator[None]:
    """Keep a transaction open, and a member in the group `mailing`, which has offsets."""
    servers = {"bootstrap.servers": broker.bootstrap}
    producer = Producer({**servers, "transactional.id": "transfers", "transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("payments", b"held", partition=0)
    producer.flush(30)
    consumer = Consumer({**servers, "group.id": "mailing", "client.id": "mailer", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 6, 60)
    for index in range(6):
        consumer.commit(offsets=[TopicPartition("orders", index, 10 * index)], asynchronous=False)
    try:
        yield
    finally:
        consumer.close()
        producer.abort_transaction(30)


def has_history(broker: PageBroker) -> bool:
    """Produce a record; return whether there are enough samples of the lag for a curve."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    number = int(time.time() * 10) % 100_000
    order = {"order": number, "customer": f"c-{number % 50}", "total": round(number % 311 * 1.37, 2)}
    producer.produce("orders", json.dumps(order).encode(), f"c-{number % 50}".encode())
    producer.flush(30)
    with urlopen(f"{broker.url}/api/groups/mailing", timeout=30) as answer:
        return len(json.load(answer)["history"]) >= _SAMPLES


def show_live(browser: Browser) -> None:
    """Follow a topic while records come."""
    browser.open("topics/orders/records", order="live")
    browser.wait_for("Live.")
    producer = Producer({"bootstrap.servers": browser.broker.bootstrap})
    for number in range(6):
        order = {"order": 2000 + number, "customer": f"c-{number}", "total": round(number * 7.25, 2)}
        headers = [("trace", f"{number:08x}".encode())]
        producer.produce("orders", json.dumps(order).encode(), f"c-{number}".encode(), headers=headers)
    producer.flush(30)
    browser.wait_for("2005")
    browser.driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")  # type: ignore[no-untyped-call]


def take_all(browser: Browser, directory: Path, name: str) -> None:
    def save(page: str) -> None:
        browser.save(directory / f"{name}-{page.replace('/', '-') or 'overview'}.png")

    for page, parameters in _PAGES:
        browser.open(page, **parameters)
        save(page)
        for summary in browser.all("details:not(.menu) > summary"):
            summary.click()
        if browser.all("details:not(.menu) > summary"):
            save(f"{page}-unfolded")
    browser.open("brokers/1001")
    browser.follow("a[href*='log-directory']")
    save("log-directory")
    browser.open("topics/no-such-topic/records")
    save("error")
    browser.open("topics/payments/records", at="0:1")
    save("binary")
    show_live(browser)
    save("live")


if __name__ == "__main__":
    main()
