"""A browser that shows the page of a broker in a process: Debian's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import attrs
from selenium.common.exceptions import SessionNotCreatedException, WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tests.support.broker_process import BrokerProcess
from tests.support.run_services import DIES_WITH_PARENT
from tests.support.waiting import wait_until

PROGRAMS = ("chromium", "chromedriver")
STARTS_MAX = 3
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"),
    *("--no-first-run", "--disable-background-networking", "--disable-extensions", "--disable-component-update"),
)


class BrowserMissing(Exception):
    """The programs are not installed; the message says how to install them."""


class PageBroker(BrokerProcess):
    """A broker with the page, at the same address after each start."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {"http.listeners": "http://:0", **(settings or {})}, prefix=DIES_WITH_PARENT)
        self.url = ""
        self.registry_url = ""
        """Address of its schema registry, empty without one."""

    def start(self) -> None:
        super().start()
        self.url = self.process.expect(r"web UI on (http://\S+)")[1].rstrip("/")
        if "schema.registry.listeners" in self._settings:
            self.registry_url = self.process.expect(r"schema registry on (http://\S+)")[1].rstrip("/")
        self._settings["http.listeners"] = self.url


@attrs.frozen
class Browser:
    driver: Chrome
    broker: PageBroker

    def open(self, path: str, **parameters: object) -> None:
        query = f"?{urlencode(parameters)}" if parameters else ""
        self.driver.get(f"{self.broker.url}/{path}{query}")

    @property
    def text(self) -> str:
        return self.one("body").text

    @property
    def path(self) -> str:
        return str(self.driver.current_url.removeprefix(f"{self.broker.url}/"))

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text_of(self, selector: str) -> str:
        """Return the text of an element, read at once: it may be replaced at any time."""
        script = "return document.querySelector(arguments[0]).innerText"
        return str(self.driver.execute_script(script, selector))  # type: ignore[no-untyped-call]

    def rows(self, table: int = 0) -> list[list[str]]:
        """Return the texts of a table's cells, read at once: rows come and go.

        Tables of samples do not count: after half a minute the pages of groups have one.
        """
        script = """return [...document.querySelectorAll('table:not(.samples)')[arguments[0]].tBodies[0].rows]
            .map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
        found: list[list[str]] = self.driver.execute_script(script, table)  # type: ignore[no-untyped-call]
        return found

    def unfold(self, summary: str) -> None:
        """Show a form."""
        self._named("summary", summary).click()

    def fill(self, form: str, **fields: str) -> None:
        """Write into the fields of the form that has this address."""
        for name, value in fields.items():
            field = self.one(
                f"form[method='post'][action$='{form}'] [name='{name}'], form[action='{form}'] [name='{name}']"
            )
            if field.tag_name == "select":
                Select(field).select_by_value(value)
            else:
                field.clear()
                field.send_keys(value)

    def press(self, button: str) -> None:
        """Press a button; wait for the next page if it submits a form."""
        page, pressed = self.one("html"), self._named("button", button)
        submits = pressed.get_attribute("type") == "submit"
        pressed.click()
        if submits:
            wait_until(lambda: self._is_other_page(page))

    def follow(self, selector: str) -> None:
        """Click on a link, or on a button that submits a form; wait for the next page."""
        page = self.one("html")
        self.one(selector).click()
        wait_until(lambda: self._is_other_page(page), what=lambda: self.text)

    def _is_other_page(self, page: WebElement) -> bool:
        try:
            return self.one("html") != page and self.driver.execute_script("return document.readyState") == "complete"
        except WebDriverException:  # the page is being replaced, which has many errors
            return False

    def _named(self, tag: str, text: str) -> WebElement:
        return next(each for each in self.all(tag) if each.text == text)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: self._shows(text), what=lambda: self.text)

    def _shows(self, text: str) -> bool:
        try:
            return text in self.text
        except WebDriverException:  # as above
            return False

    def save(self, path: Path) -> None:
        """Take a screenshot of the window."""
        self.driver.save_screenshot(str(path))


def _started(options: ChromeOptions, program: str | None) -> Chrome:
    """Start the browser, which its driver gives a minute; start it again if that is not enough."""
    for _ in range(STARTS_MAX - 1):
        try:
            return Chrome(options=options, service=Service(program))
        except SessionNotCreatedException:
            continue
    return Chrome(options=options, service=Service(program))


@contextmanager
def opened_browser(broker: PageBroker, *more: str) -> Iterator[Browser]:
    """Start the browser; raise BrowserMissing."""
    paths = [shutil.which(program) for program in PROGRAMS]
    if None in paths:
        raise BrowserMissing(
            f"the tests of the page need the programs {' and '.join(PROGRAMS)}; on Debian: apt-get install chromium "
            "chromium-driver"
        )
    options = ChromeOptions()
    options.binary_location = paths[0] or ""
    for each in (*OPTIONS, *more):
        options.add_argument(each)
    driver = _started(options, paths[1])
    try:
        yield Browser(driver, broker)
    finally:
        driver.quit()
