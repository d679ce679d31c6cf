"""Every page by axe-core, at two widths, light and dark; and its size, which no page exceeds sideways.

A page is loaded once, and then shown at each width and in each scheme. In the second scheme of a width only the colours
are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.web.page_routes import PageRoute
from pylogbroker.web.pages import FAULT_PAGES, PAGES
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser
from tests.web.sample_data import ADMINISTERED, REGISTRY, administer, ask, register_schemas

GROUP: Final = "a-group-with-a-rather-long-name-" + "y" * 60
SHARE_GROUP: Final = "a-share-group-with-a-rather-long-name-" + "s" * 60
TRANSACTION: Final = "a-transactional-id-with-a-rather-long-name-" + "z" * 60
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
    "/topics/{topic}/producers": ("topics/orders/producers", "topics/clicks/producers"),
    "/topics/{topic}/producers/abort": ("topics/clicks/producers/abort?producer_id=PRODUCER",),
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
    "/share-groups/{id}": (f"share-groups/{SHARE_GROUP}",),
    "/groups/{id}/reset": (f"groups/{GROUP}/reset",),
    "/mirrors": ("mirrors",),
    "/brokers": ("brokers",),
    "/brokers/{broker}": ("brokers/1001",),
    "/brokers/{broker}/log-directory": ("brokers/1001/log-directory?path=DIRECTORY",),
    "/brokers/{broker}/settings": ("brokers/1001/settings?search=log.segment&edit=log.segment.bytes",),
    "/groups/{id}/delete": (f"groups/{GROUP}/delete",),
    "/groups/{id}/delete-offsets": (f"groups/{GROUP}/delete-offsets", f"groups/{GROUP}/delete-offsets?topic=orders"),
    "/transactions": ("transactions", "transactions?state=all"),
    "/transactions/{id}": (f"transactions/{TRANSACTION}",),
    "/transactions/{id}/fence": (f"transactions/{TRANSACTION}/fence",),
    "/brokers/reassignments": ("brokers/reassignments",),
    "/access/users": ("access/users",),
    "/access/users/password": ("access/users/password",),
    "/access/users/{name}/delete": ("access/users/alice/delete",),
    "/access/acls": ("access/acls",),
    "/access/acls/entry": (
        "access/acls/entry?principal=User:alice&resource=topic&name=orders&pattern=literal",
        "access/acls/entry?principal=User:eve&resource=topic&name=*&pattern=literal",
    ),
    "/access/acls/allow": ("access/acls/allow",),
    "/access/quotas": ("access/quotas",),
    "/access/quotas/set": ("access/quotas/set",),
    "/schemas": ("schemas", "schemas?search=no-such-subject"),
    "/schemas/{subject}": (
        "schemas/orders-value",
        "schemas/orders-value?version=1",
        "schemas/orders-value?version=2&against=1",
        "schemas/shop.Customer",
    ),
    "/faults": ("faults",),
    "/faults/add": ("faults/add",),
    "/go": ("go?to=orders", "go?to=no-such-name"),
    "/style": ("style",),
}
"""Addresses of a page in each of its states."""
PARTS: Final = ("/topics/{topic}/records/opened",)
"""Parts of a page, which are in it as well."""
OF_EMPTY_BROKER: Final = (
    *("", "topics", "groups", "brokers", "transactions"),
    *("access/users", "access/acls", "access/quotas", "brokers/reassignments", "schemas"),
)
"""Pages of a broker without topics, groups or an authorizer."""
REJECTED: Final = "topics/orders/records?where=value+is"
WIDTHS: Final = {1280: 900, 390: 844}
SCHEMES: Final = {"light": {}, "dark": {"runOnly": ["color-contrast", "link-in-text-block"]}}
"""Options of axe-core, by the scheme of colours."""
WIDER_JS: Final = """return [
    document.scrollingElement.scrollWidth - innerWidth,
    [...document.querySelectorAll('main *')].filter(element => element.getBoundingClientRect().right > innerWidth)
        .map(element => element.outerHTML.slice(0, 120)).slice(0, 5)]"""


@attrs.frozen
class Pages:
    browser: Browser
    filled: PageBroker
    empty: PageBroker
    producer_id: int
    """Producer of an open transaction."""

    def url(self, address: str) -> str:
        """Return the address of a page of the filled broker, with what only this run knows."""
        directory = quote(str(self.filled.data_dir))
        return f"{self.filled.url}/{address}".replace("PRODUCER", str(self.producer_id)).replace("DIRECTORY", directory)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """One browser, and two brokers whose pages it shows."""
    filled = PageBroker(tmp_path_factory.mktemp("filled"), ADMINISTERED)
    empty = PageBroker(tmp_path_factory.mktemp("empty"), REGISTRY)
    with ExitStack() as stack:
        for broker in (filled, empty):
            stack.callback(broker.kill)
            broker.start()
        fill(filled)
        administer(filled)
        register_schemas(filled)
        stack.callback(opened_transaction(filled).abort_transaction, 30)
        [producer] = ask(filled, "producers", topic="clicks")["producers"]
        try:
            browser = stack.enter_context(opened_browser(filled))
        except BrowserMissing as missing:
            pytest.fail(str(missing))
        axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
        send(browser, "Page.addScriptToEvaluateOnNewDocument", source=axe)
        yield Pages(browser, filled, empty, producer["producer_id"])


def fill(broker: PageBroker) -> None:
    servers = {"bootstrap.servers": broker.bootstrap}
    long_name = "a-topic-whose-name-is-as-long-as-names-of-topics-become-in-" + "x" * 60
    topics = [NewTopic("orders", 3, 1), NewTopic("empty", 1, 1), NewTopic("clicks", 1, 1), NewTopic(long_name, 1, 1)]
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
    join_share_group(broker)


def join_share_group(broker: PageBroker) -> None:
    """Let a share group have a member, which never reads."""
    with BlockingCluster(read(CONSUMER, {"bootstrap.servers": broker.bootstrap})) as cluster:
        request = ShareGroupHeartbeatRequest(SHARE_GROUP, "m" * 22, 0, None, ["orders", "clicks"])
        answer: ShareGroupHeartbeatResponse = cluster.coordinator(SHARE_GROUP, CoordinatorType.GROUP).ask(request)
        assert answer.error_code == 0, answer.error_message


def opened_transaction(broker: PageBroker) -> Producer:
    options = {"transactional.id": TRANSACTION, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **options})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("clicks", b"held", partition=0)
    assert producer.flush(60) == 0
    return producer


def send(browser: Browser, command: str, **parameters: object) -> None:
    """Send a command of Chromium's DevTools protocol."""
    browser.driver.execute_cdp_cmd(command, parameters)  # type: ignore[no-untyped-call]


def run(browser: Browser, script: str) -> Any:
    return browser.driver.execute_script(script)  # type: ignore[no-untyped-call]


def violations(browser: Browser, options: dict[str, Any]) -> list[str]:
    """Return what axe-core reports of the page as it is shown, with the first elements of each violation."""
    script = "axe.run(document, {...arguments[0], resultTypes: ['violations']}).then(arguments[1])"
    result = browser.driver.execute_async_script(script, options)  # type: ignore[no-untyped-call]
    return [
        f"{rule['id']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes'][:3]]}"
        for rule in result["violations"]
    ]


def failures(browser: Browser, url: str) -> list[str]:
    """Return what is wrong with a page."""
    failed: list[str] = []
    browser.driver.get(url)
    for width, height in WIDTHS.items():
        send(
            browser,
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        for scheme, options in SCHEMES.items():
            features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
            emulated = [{"name": name, "value": value} for name, value in features.items()]
            send(browser, "Emulation.setEmulatedMedia", features=emulated)
            failed += [f"{width} px, {scheme}: {violation}" for violation in violations(browser, options)]
        wider, elements = run(browser, WIDER_JS)
        failed += [f"{width} px: {wider} px wider than the window: {elements}"] if wider > 0 else []
    status = run(browser, "return performance.getEntriesByType('navigation')[0].responseStatus")
    return failed + ([f"status {status}"] if status >= 400 and not url.endswith(REJECTED) else [])


def test_each_page_is_in_one_list() -> None:
    routes = [route for route in (*PAGES, *FAULT_PAGES) if isinstance(route, PageRoute)]
    paths = [route.path for route in routes if route.method == "GET"]
    assert sorted(paths) == sorted((*ADDRESSES, *PARTS))


@pytest.mark.parametrize("address", [address for addresses in ADDRESSES.values() for address in addresses])
def test_page(pages: Pages, address: str) -> None:
    assert failures(pages.browser, pages.url(address)) == []


@pytest.mark.parametrize("address", OF_EMPTY_BROKER)
def test_page_of_an_empty_broker(pages: Pages, address: str) -> None:
    assert failures(pages.browser, f"{pages.empty.url}/{address}") == []
