"""The page with the records of a topic in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.waiting import wait_until
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

RECORDS = 2000
PARTITIONS = 3


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser and one broker with a topic for all tests, which do not change it."""
    broker = PageBroker(tmp_path_factory.mktemp("page"))
    broker.start()
    try:
        fill(broker, "orders", RECORDS)
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()
    assert broker.unexpected_errors() == []


def fill(broker: PageBroker, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    for number in range(count):
        value = json.dumps({"order": 9007199254740993 + number, "customer": f"c-{number % 100}", "amount": number})
        timestamp = 1_700_000_000_000 + number
        producer.produce(topic, value.encode(), f"key-{number}".encode(), number % PARTITIONS, timestamp=timestamp)
    assert producer.flush(120) == 0


def open_records(browser: Browser, topic: str = "orders", **fields: str) -> None:
    browser.open(f"topics/{topic}/records", **fields)


def keys(browser: Browser) -> list[str]:
    return [row[2] for row in browser.rows()]


def test_a_search_goes_on_by_itself(browser: Browser) -> None:
    open_records(browser, where='value.customer == "c-7"')
    browser.wait_for("20 matches in 2,000 of 2,000 records: all were searched.")
    assert keys(browser) == [f"key-{number}" for number in range(1907, 0, -100)]
    assert {mark.text for mark in browser.all("#records .cut mark")} == {"c-7"}


def test_a_wrong_condition_stays_in_its_field(browser: Browser) -> None:
    open_records(browser)
    field = browser.one("#where")
    field.send_keys('value.customer = "c-3"')
    page = browser.one("html")
    field.send_keys(Keys.ENTER)
    wait_until(lambda: browser.one("html") != page)
    browser.wait_for("not understood at character 16")
    assert browser.one("#where").get_attribute("value") == 'value.customer = "c-3"'


def test_a_record_is_opened_beside_the_list(browser: Browser) -> None:
    open_records(browser)
    browser.one("#records tbody tr").click()
    browser.wait_for("order: 9007199254742992")
    assert "at=1:666" in browser.path
    browser.one("body").send_keys("j")
    browser.wait_for("order: 9007199254742991")
    browser.driver.find_element(By.LINK_TEXT, "Hex").click()
    browser.wait_for("000000  7b 22")
    browser.driver.refresh()
    browser.wait_for("000000  7b 22")
    assert browser.one("[aria-selected=true] a").text == "0 · 666"
    browser.driver.find_element(By.LINK_TEXT, "JSON").click()
    browser.wait_for("order: 9007199254742991")
    next(button for button in browser.all(".json button") if button.text == '"c-98"').click()
    assert browser.one("#where").get_attribute("value") == 'value.customer == "c-98"'
    browser.one("body").send_keys(Keys.ESCAPE)
    wait_until(lambda: not browser.all("#record"))
    assert "at=" not in browser.path


def test_more_rows_come_as_the_end_is_scrolled_to(browser: Browser) -> None:
    open_records(browser, order="oldest")
    assert len(browser.rows()) == 50
    for count in (250, 450):
        browser.driver.execute_script("scrollTo(0, 0); scrollTo(0, document.body.scrollHeight)")
        wait_until(lambda count=count: len(browser.rows()) == count)
    assert keys(browser) == [f"key-{number}" for number in range(450)]


def test_new_records_come_on_top(browser: Browser) -> None:
    fill(browser.broker, "live", 3)
    open_records(browser, "live", order="live")
    browser.wait_for("Live.")
    producer = Producer({"bootstrap.servers": browser.broker.bootstrap, "linger.ms": 0})
    for value in ("one", "<b>two</b>"):
        producer.produce("live", value.encode(), value.encode())
        assert producer.flush(120) == 0
        wait_until(lambda value=value: keys(browser)[0] == value, what=lambda: browser.text)
    assert keys(browser)[:2] == ["<b>two</b>", "one"]


def test_a_record_is_produced_again(browser: Browser) -> None:
    fill(browser.broker, "again", 1)
    open_records(browser, "again", at="0:0")
    browser.follow("#record footer a")
    assert '"customer": "c-0"' in (browser.one("textarea").get_attribute("value") or "")
    browser.press("Write 1 record")
    browser.wait_for("order: 9007199254740993")
    open_records(browser, "again")
    assert keys(browser) == ["key-0", "key-0"]
