"""Pages of access, brokers and faults in a browser: with an authorizer and without, also on a narrow screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from tests.support.waiting import wait_until
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_ACLS = {"authorizer.class.name": _AUTHORIZER, "super.users": "User:ANONYMOUS", "testing.faults": "true"}
_DISTINGUISHED_NAME = "CN=a-service-with-a-very-long-name,OU=payments,O=example"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser and one broker for all tests; these keep apart by names."""
    broker = PageBroker(tmp_path_factory.mktemp("access"), _ACLS)
    broker.start()
    try:
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()
    assert broker.unexpected_errors() == []


def choose_task(browser: Browser, task: str) -> None:
    browser.one(f"input[name=task][value={task}]").click()


def allow(browser: Browser, principal: str, topic: str, group: str) -> None:
    browser.open("access/acls/allow")
    browser.fill("/access/acls/allow", principal=principal, topic=topic, group=group)
    browser.press("Allow")


def test_a_user_is_added_and_deleted_by_name(browser: Browser) -> None:
    browser.open("access/users")
    browser.follow(".head .main")
    browser.fill("/access/users/password", name="alice", password="secret")
    browser.press("Set the password")
    assert browser.path == "access/users?search=alice"
    assert [row[0] for row in browser.rows()] == ["alice"]
    browser.one("summary[aria-label='Change the user alice']").click()
    browser.follow(".menu[open] .danger")
    browser.fill("delete", confirm="bob")
    assert not browser.one("button.danger").is_enabled()
    browser.fill("delete", confirm="alice")
    browser.press("Delete alice")
    assert "alice" not in [name.text for name in browser.all("tbody th")]


def test_a_task_is_allowed_found_and_removed(browser: Browser) -> None:
    allow(browser, "bob", "orders", "billing")
    assert "such as User:bob" in browser.one("#error").text
    assert browser.one("input[name=topic]").get_attribute("value") == "orders"
    browser.fill("/access/acls/allow", principal="User:bob")
    browser.press("Allow")
    assert browser.rows() == [["User:bob", "orders describe, read", "billing read"]]
    browser.open("access/acls")
    browser.one("#q").send_keys("nobody at all")
    browser.wait_for("No ACL fits")
    browser.open("access/acls", principal="User:bob")
    browser.follow("td a")
    browser.follow("td button")
    assert browser.rows() == [["User:bob", "orders read", "billing read"]]
    browser.follow("td a")
    browser.fill("/access/acls/remove-all", confirm="User:bob")
    browser.press("Remove 1 ACL")
    assert browser.rows() == [["User:bob", "billing read"]]


def test_quotas_are_set_with_units_and_removed(browser: Browser) -> None:
    browser.open("access/quotas/set", user="carol")
    browser.fill("/access/quotas/set", producer_byte_rate="fast")
    browser.press("Set the quotas")
    assert "is no number, such as 10MB" in browser.one("#error").text
    browser.fill("/access/quotas/set", producer_byte_rate="10MB")
    browser.press("Set the quotas")
    [row] = [row for row in browser.rows() if row[0] == "user carol"]
    assert row[1] == "10.0 MiB/s"
    browser.follow("a[aria-label='Change the quotas of user carol']")
    browser.fill("/access/quotas/set", producer_byte_rate="")
    browser.press("Set the quotas")
    assert "user carol" not in browser.text


def test_a_setting_of_a_broker_is_changed_in_place(browser: Browser) -> None:
    browser.open("brokers")
    browser.follow("tbody th a")
    browser.follow(".tabs a:last-child")
    browser.one("#q").send_keys("log.segment.bytes")
    wait_until(lambda: len(browser.rows()) < 10, what=lambda: browser.text)
    browser.follow("a[aria-label='Edit log.segment.bytes']")
    assert browser.driver.switch_to.active_element.get_attribute("name") == "value"
    browser.fill("settings", value="big")
    browser.press("Save")
    assert "big" in browser.one("#error").text
    browser.fill("settings", value="512MB")
    browser.press("Save")
    [row] = [row for row in browser.rows() if row[0].startswith("log.segment.bytes")]
    assert row[1:4] == ["512 MiB 536870912", "1 GiB", "this broker"]


def test_logs_of_a_directory_and_reassignments(browser: Browser) -> None:
    browser.open("brokers")
    browser.follow("tbody th a")
    browser.follow("section td a, section th a")
    assert "Their size" in browser.text
    browser.open("brokers/reassignments")
    assert "No partition is being moved" in browser.text


def test_a_fault_is_added_released_and_removed(browser: Browser) -> None:
    browser.open("faults/add")
    browser.fill("/faults/add", error="NO_LEADER", client_id="nobody")
    browser.press("Add the fault")
    assert "there is no error 'NO_LEADER'" in browser.one("[role=alert]").text
    browser.fill("/faults/add", error="REQUEST_TIMED_OUT")
    browser.press("Add the fault")
    assert "REQUEST_TIMED_OUT" in browser.rows()[0][1]
    browser.press("Release")
    assert "spent" in browser.rows()[0][3]
    browser.press("Remove")
    assert "No faults" in browser.text


def test_no_page_scrolls_sideways_on_a_phone(browser: Browser) -> None:
    browser.open("access/users/password", name=_DISTINGUISHED_NAME)
    browser.fill("/access/users/password", password="secret")
    browser.press("Set the password")
    allow(browser, f"User:{_DISTINGUISHED_NAME}", "a.topic.with.a.very.long.name." * 4, "a-group-with-a-long-name-" * 4)
    browser.open("access/quotas/set", user=_DISTINGUISHED_NAME)
    browser.fill("/access/quotas/set", producer_byte_rate="10MB", consumer_byte_rate="20MB")
    browser.press("Set the quotas")
    browser.open("brokers")
    broker = browser.one("tbody th a").get_attribute("href") or ""
    one = broker.removeprefix(f"{browser.broker.url}/")
    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        for path in (
            *("access/users", "access/users/password", "access/acls", "access/acls/allow", "access/quotas"),
            *("access/quotas/set", "brokers", one, f"{one}/settings", "brokers/reassignments", "faults", "faults/add"),
        ):
            browser.open(path)
            beyond = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.driver.execute_script(beyond) == 0, path
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_keyboard_reaches_menus_and_forms(browser: Browser) -> None:
    browser.open("access/users/password", name="dave")
    browser.one("input[name=password]").send_keys("secret", Keys.ENTER)
    browser.wait_for("dave")
    summary = browser.one("summary[aria-label='Change the user dave']")
    summary.send_keys(Keys.ENTER)
    assert browser.all(".menu[open] a")[0].text == "Set a password"
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.all(".menu[open]") == []
    assert browser.driver.switch_to.active_element == summary
    browser.one("body").send_keys("/")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "q"


def test_without_an_authorizer(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = PageBroker(tmp_path_factory.mktemp("open"))
    broker.start()
    try:
        with opened_browser(broker, "--blink-settings=scriptEnabled=false") as plain:
            plain.open("access/acls")
            assert "everybody who can connect may do everything" in plain.text
            assert f"authorizer.class.name={_AUTHORIZER}" in plain.text
            plain.open("access/users/password", name="erin")
            plain.fill("/access/users/password", password="secret")
            plain.follow("button.main")
            assert "no authorizer" in plain.text
            plain.one("summary").click()
            plain.follow(".menu[open] .danger")
            plain.fill("delete", confirm="erin")
            plain.follow("button.danger")
            assert "No users yet" in plain.text
    finally:
        broker.kill()
