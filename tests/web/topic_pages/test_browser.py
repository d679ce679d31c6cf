"""The pages of a topic in a real browser: settings with preview and undo, partitions, groups, a narrow screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver.common.by import By

from tests.support.waiting import wait_until
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

PARTS = ("records", "partitions", "groups", "settings", "delete", "records/new")
NARROW = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser and one broker, with a topic that a group reads."""
    broker = PageBroker(tmp_path_factory.mktemp("page"))
    broker.start()
    servers = {"bootstrap.servers": broker.bootstrap}
    try:
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("orders", 3, 1, config={"retention.ms": "604800000"})])["orders"].result(60)
        producer = Producer(servers)
        for number in range(30):
            producer.produce("orders", b"value", partition=number % 3)
        assert producer.flush(120) == 0
        consumer = Consumer({**servers, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        consumer.close()
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()
    assert broker.unexpected_errors() == []


def test_tabs_lead_from_part_to_part(browser: Browser) -> None:
    browser.open("topics/orders")
    for tab in ("Partitions", "Groups", "Settings", "Records"):
        link = next(link for link in browser.all(".tabs a") if link.text.startswith(tab))
        page = browser.one("html")
        link.click()
        wait_until(lambda page=page: browser.one("html") != page)
        assert browser.path == f"topics/orders/{tab.lower()}"
        assert browser.one(".tabs [aria-current]").text.startswith(tab)


def test_a_setting_is_previewed_saved_and_undone(browser: Browser) -> None:
    browser.open("topics/orders/settings", search="retention.ms")
    browser.driver.find_element(By.CSS_SELECTOR, "[aria-label='Edit retention.ms']").click()
    wait_until(lambda: browser.all("form.edit"))
    field = browser.one("form.edit input[name=value]")
    assert field.get_attribute("value") == "7d"
    field.clear()
    field.send_keys("36h")
    browser.wait_for("= 129,600,000 ms. Now 7 d. The next check deletes nothing more on this broker.")
    field.clear()
    field.send_keys("soon")
    browser.wait_for("'soon' is not accepted")
    browser.press("Save")
    assert browser.one("form.edit input[name=value]").get_attribute("value") == "soon"
    field = browser.one("form.edit input[name=value]")
    field.clear()
    field.send_keys("36h")
    browser.press("Save")
    browser.wait_for("retention.ms of orders is 1 d 12 h now.")
    assert browser.one("tr.own .badge").text == "this topic"
    browser.follow(".toast a")
    assert browser.one("form.edit input[name=value]").get_attribute("value") == "7d"
    browser.press("Save")
    browser.wait_for("retention.ms of orders is 7 d now.")
    browser.open("topics/orders/settings", edit="retention.ms")
    browser.press("Use the default, no limit")
    browser.wait_for("retention.ms of orders is no limit now.")
    assert not browser.all("tr.own")


def test_settings_are_searched_while_somebody_types(browser: Browser) -> None:
    browser.open("topics/orders/settings")
    browser.one("#q").send_keys("insync")
    wait_until(lambda: len(browser.all("#settings tr[id]")) == 1)
    assert browser.one("#found").text.startswith("1 of ")


def test_partitions_are_sorted_and_added(browser: Browser) -> None:
    browser.open("topics/orders/partitions")
    assert "The 3 partitions have their leader." in browser.text
    browser.follow("th:nth-child(1) a")
    assert [row[0] for row in browser.rows()] == ["2", "1", "0"]
    browser.follow("tbody tr:nth-child(2) th a")
    assert browser.path == "topics/orders/records?partition=1"
    browser.one(".menu > summary").click()
    browser.driver.find_element(By.LINK_TEXT, "Add partitions").click()
    wait_until(lambda: browser.all("[name=count]"))
    browser.fill("orders/partitions", count="3")
    browser.press("Add partitions")
    assert "Write a number above 3." in browser.text
    browser.fill("orders/partitions", count="5")
    browser.press("Add partitions")
    assert len(browser.rows()) == 5


def test_groups_of_the_topic(browser: Browser) -> None:
    browser.open("topics/orders/groups")
    [row] = browser.rows()
    assert row[0].startswith("readers\nno commit in 1, 2")
    assert row[1:4] == ["Empty", "0", "26"]
    browser.follow("tbody th a")
    assert "readers" in browser.text


def test_the_page_works_without_scripts(browser: Browser) -> None:
    with opened_browser(browser.broker, "--blink-settings=scriptEnabled=false") as plain:
        plain.open("topics/orders/settings", edit="segment.bytes")
        plain.fill("orders/settings", value="64MiB")
        plain.follow("[name=preview]")
        assert "A new segment begins at 64.0 MiB." in plain.text
        plain.follow("form.edit button.main")
        plain.wait_for("segment.bytes of orders is 64.0 MiB now.")
        plain.follow(".toast a")
        plain.follow("[name=restore]")
        plain.wait_for("segment.bytes of orders is 1 GiB now.")


def test_nothing_scrolls_sideways_on_a_phone(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
    try:
        for path in (*(f"topics/orders/{part}" for part in PARTS), "create-topic", "topics/orders/partitions?add=true"):
            browser.open(path)
            assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 390, path
        browser.open("topics/orders/settings", edit="cleanup.policy", value="compact")
        assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
