"""Every page by axe-core, at two widths, light and dark; and its size, which no page exceeds sideways."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.web.page_routes import PageRoute
from pylogbroker.web.pages import FAULT_PAGES, PAGES
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

GROUP: Final = "a-group-with-a-rather-long-name-" + "y" * 60
ADDRESSES: Final = {
    "/": ("",),
    "/topics": ("topics", "topics?search=no-such-topic", "topics?sort=-rate"),
    "/create-topic": ("create-topic",),
    "/topics/{topic}/delete": ("topics/orders/delete",),
    "/topics/{topic}/partitions": ("topics/orders/partitions", "topics/orders/partitions?add=true"),
    "/topics/{topic}/groups": ("topics/orders/groups", "topics/empty/groups"),
    "/topics/{topic}/settings": (
        "topics/orders/settings",
        "topics/orders/settings?changed=1",
        "topics/orders/settings?edit=retention.ms&value=7d",
    ),
    "/topics/{topic}/producers": ("topics/orders/producers",),
    "/topics/{topic}/records": (
        "topics/orders/records",
        "topics/orders/records?at=0:3",
        "topics/orders/records?where=value.customer+%3D%3D+%22c-3%22",
        "topics/orders/records?where=value+is",
        "topics/orders/records?order=live",
        "topics/empty/records",
    ),
    "/topics/{topic}/records/new": ("topics/orders/records/new", "topics/orders/records/new?at=0:3"),
    "/groups": ("groups", "groups?search=no-such-group"),
    "/groups/{id}": (f"groups/{GROUP}",),
    "/groups/{id}/reset": (f"groups/{GROUP}/reset",),
    "/brokers": ("brokers",),
    "/brokers/{broker}": ("brokers/1001",),
    "/brokers/{broker}/settings": ("brokers/1001/settings?search=log.segment&edit=log.segment.bytes",),
    "/groups/{id}/delete": (f"groups/{GROUP}/delete",),
    "/transactions": ("transactions",),
    "/brokers/reassignments": ("brokers/reassignments",),
    "/access/users": ("access/users",),
    "/access/users/password": ("access/users/password",),
    "/access/acls": ("access/acls",),
    "/access/acls/allow": ("access/acls/allow",),
    "/access/quotas": ("access/quotas",),
    "/access/quotas/set": ("access/quotas/set",),
    "/go": ("go?to=orders", "go?to=no-such-name"),
    "/style": ("style",),
}
"""Addresses of a page in each of its states."""
PARTS: Final = ("/topics/{topic}/records/opened",)
"""Parts of a page, which are in it as well."""
NOT_YET: Final = (
    *("/groups/{id}/delete-offsets", "/topics/{topic}/producers/abort"),
    *("/brokers/{broker}/log-directory", "/access/users/{name}/delete"),
    *("/access/acls/entry", "/transactions/{id}", "/transactions/{id}/fence"),
    *("/faults", "/faults/add"),
)
"""Pages that are not of the new design yet, or need a broker with users, faults or transactions."""
WIDTHS: Final = {1280: 900, 390: 844}
SCHEMES: Final = ("light", "dark")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    broker = PageBroker(tmp_path_factory.mktemp("pages"))
    broker.start()
    try:
        fill(broker)
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()


def fill(broker: PageBroker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap}
    long_name = "a-topic-whose-name-is-as-long-as-names-of-topics-become-in-" + "x" * 60
    topics = [NewTopic("orders", 3, 1), NewTopic("empty", 1, 1), NewTopic(long_name, 1, 1)]
    admin = AdminClient(servers)
    for created in admin.create_topics(topics).values():
        created.result(60)
    producer = Producer(servers)
    for number in range(40):
        value = b'{"order": %d, "customer": "c-%d", "items": [{"name": "%s"}]}' % (number, number % 5, b"long " * 40)
        producer.produce("orders", value, b"key-%d" % number, partition=0, headers=[("trace", b"%08x" % number)])
    producer.produce(long_name, bytes(range(256)), bytes(40))
    assert producer.flush(60) == 0
    consumer = Consumer({**servers, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()


def show(browser: Browser, address: str, width: int, scheme: str) -> None:
    metrics = {"width": width, "height": WIDTHS[width], "deviceScaleFactor": 1, "mobile": False}
    colours = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)  # type: ignore[no-untyped-call]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", colours)  # type: ignore[no-untyped-call]
    browser.open(address)


def run(browser: Browser, script: str) -> Any:
    return browser.driver.execute_script(script)  # type: ignore[no-untyped-call]


def violations(browser: Browser) -> list[str]:
    """Return what axe-core finds, with the first elements of each finding."""
    run(browser, files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    ask = "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
    found = browser.driver.execute_async_script(ask)  # type: ignore[no-untyped-call]
    return [
        f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes'][:3]]}"
        for rule in found["violations"]
    ]


def test_each_page_is_in_one_list() -> None:
    pages = [page for page in (*PAGES, *FAULT_PAGES) if isinstance(page, PageRoute)]
    paths = [page.path for page in pages if page.method == "GET"]
    assert sorted(paths) == sorted((*ADDRESSES, *PARTS, *NOT_YET))


@pytest.mark.parametrize("address", [address for addresses in ADDRESSES.values() for address in addresses])
def test_page(browser: Browser, address: str) -> None:
    findings: list[str] = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            show(browser, address, width, scheme)
            where = f"{width} px, {scheme}"
            findings += [f"{where}: {finding}" for finding in violations(browser)]
            status = run(browser, "return performance.getEntriesByType('navigation')[0].responseStatus")
            findings += [f"{where}: status {status}"] if status >= 400 and "where=value+is" not in address else []
            wider = run(browser, "return document.scrollingElement.scrollWidth - innerWidth")
            findings += [f"{where}: {wider} px wider than the window: {widest(browser)}"] if wider > 0 else []
    assert findings == []


def widest(browser: Browser) -> Any:
    """Return the elements that reach beyond the window."""
    return run(
        browser,
        """return [...document.querySelectorAll('main *')]
            .filter(each => each.getBoundingClientRect().right > innerWidth)
            .map(each => each.outerHTML.slice(0, 120)).slice(0, 5)""",
    )
