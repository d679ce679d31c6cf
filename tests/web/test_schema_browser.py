"""The pages of schemas in a real browser: found by typing, compared, a level changed, by keys and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.support.waiting import wait_until
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser
from tests.web.sample_data import REGISTRY, register_schemas


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser, and one broker with a registry, a topic, and schemas."""
    broker = PageBroker(tmp_path_factory.mktemp("page"), REGISTRY)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
        register_schemas(broker)
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()
    assert broker.unexpected_errors() == []


def type_keys(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def test_subjects_are_found_as_they_are_typed(browser: Browser) -> None:
    browser.open("schemas")
    assert len(browser.rows()) == 3
    page = browser.one("html")
    type_keys(browser, "/", "Customer")
    wait_until(lambda: len(browser.rows()) == 1, what=lambda: browser.text)
    assert browser.one("html") == page
    assert browser.path == "schemas?search=Customer"


def test_a_name_leads_to_its_schema(browser: Browser) -> None:
    browser.open("topics")
    ActionChains(browser.driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    type_keys(browser, "shop.Cust")
    wait_until(lambda: "schema" in browser.text_of("#go"), what=lambda: browser.text)
    browser.follow("#go a")
    assert browser.path == "schemas/shop.Customer"
    browser.follow("#references ~ .wide tbody a")
    assert browser.path == "schemas/orders-value?version=1"
    assert browser.one("h1").text == "orders-value"


def test_versions_are_compared(browser: Browser) -> None:
    browser.open("topics/orders/records")
    browser.follow(".facts a")
    assert browser.path == "schemas/orders-value"
    browser.follow("#schema ~ .bar a")
    added = [row for row in browser.rows() if row[0].startswith("added")]
    assert any('"name": "note"' in row[1] for row in added)
    browser.follow("#schema ~ .bar a")
    assert '"shop.Order"' in browser.one("pre.code").text
    browser.follow(".acts a")
    assert browser.path == "topics/orders/records"


def test_a_level_is_set_and_given_back(browser: Browser) -> None:
    browser.open("schemas/orders-value")
    browser.fill("schemas/orders-value", level="NONE")
    browser.press("Save")
    assert "NONE" in browser.one(".facts").text
    assert "the default" not in browser.one(".facts").text
    browser.open("schemas")
    browser.fill("schemas", level="FULL")
    browser.press("Save")
    levels = {row[0].split()[0]: row[5] for row in browser.rows()}
    assert (levels["orders-value"], levels["shop.Customer"]) == ("NONE", "FULL")
    browser.open("schemas/orders-value")
    browser.fill("schemas/orders-value", level="")
    browser.press("Save")
    assert "FULL the default" in browser.one(".facts").text
