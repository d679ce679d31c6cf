"""Screenshots of every page, of a broker with some topics, records and a group.

python -m tests.web.screenshots DIRECTORY      # all pages, light and dark
python -m tests.web.screenshots --readme       # the one that README shows
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.web.browser import Browser, PageBroker, opened_browser

README_PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
_WIDTH, _HEIGHT = 1150, 830
_COLOURS = {"light": (), "dark": ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")}
_SETTINGS = {"auto.create.topics.enable": "false"}


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--readme", is_flag=True, help="Take the picture of README.")
def main(directory: Path | None, readme: bool) -> None:
    """Take screenshots."""
    with tempfile.TemporaryDirectory() as data:
        broker = PageBroker(Path(data), _SETTINGS)
        broker.start()
        try:
            fill(broker)
            if readme:
                with opened_browser(broker, f"--window-size={_WIDTH},{_HEIGHT}") as browser:
                    show_live(browser)
                    browser.save(README_PICTURE)
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
                for name, options in _COLOURS.items():
                    with opened_browser(broker, *options) as browser:
                        take_all(browser, directory, name)
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


def show_live(browser: Browser) -> None:
    """Follow a topic while records come."""
    browser.open("records", topic="orders", last=1)
    browser.press("Follow new records")
    browser.one("#followed option[value='']").click()
    browser.wait_for("Following.")
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
        browser.save(directory / f"{name}-{page}.png")

    for page, parameters in (
        ("topics", {}),
        ("topic", {"name": "orders"}),
        ("records", {"topic": "orders", "format": "json", "last": 5}),
        ("groups", {}),
        ("group", {"id": "billing"}),
        ("reset-group", {"id": "billing", "to": "earliest"}),
        ("brokers", {}),
    ):
        browser.open(page, **parameters)
        for summary in browser.all("summary"):
            summary.click()
        save(page)
    browser.open("topic", name="no-such-topic")
    save("error")
    browser.open("records", topic="payments", last=5)
    save("binary")
    show_live(browser)
    save("live")


if __name__ == "__main__":
    main()
