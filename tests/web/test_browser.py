"""The page in a real browser, beside clients of librdkafka."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.budget import Budget
from tests.support.waiting import wait_until
from tests.web.browser import Browser, BrowserMissing, PageBroker, opened_browser

HOSTILE = "</pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
CREATION_SECONDS_MAX = 600.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser and one broker for all tests; these keep apart by names."""
    broker = PageBroker(tmp_path_factory.mktemp("page"))
    broker.start()
    try:
        with opened_browser(broker) as opened:
            yield opened
    except BrowserMissing as missing:
        pytest.fail(str(missing))
    finally:
        broker.kill()
    assert broker.unexpected_errors() == []


@pytest.fixture
def topic(browser: Browser) -> str:
    return new_topics(browser, 1)[0]


def new_topics(browser: Browser, count: int, partitions: int = 1) -> list[str]:
    admin = AdminClient({"bootstrap.servers": browser.broker.bootstrap})
    names = [f"topic-{next(_numbers):05}" for _ in range(count)]
    made = admin.create_topics([NewTopic(name, partitions, 1) for name in names], request_timeout=CREATION_SECONDS_MAX)
    for created in made.values():
        created.result(CREATION_SECONDS_MAX)
    return names


def produce(browser: Browser, topic: str, *values: str, **more: Any) -> None:
    how = {"linger.ms": 0, "batch.num.messages": 50}  # a viewer skips whole batches
    producer = Producer({"bootstrap.servers": browser.broker.bootstrap, **how})
    for value in values:
        producer.produce(topic, value.encode(), **more)
    assert producer.flush(120) == 0


def commit(browser: Browser, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": browser.broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def consumed(browser: Browser, topic: str) -> Any:
    """Return the first record of a topic, as librdkafka reads it."""
    consumer = Consumer({"bootstrap.servers": browser.broker.bootstrap, "group.id": "bytes"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(120)
    finally:
        consumer.close()
    assert record is not None
    assert record.error() is None
    return record


def test_a_topic_is_created_changed_and_deleted(browser: Browser) -> None:
    name = f"created-{next(_numbers)}"
    browser.open("topics")
    browser.follow("a[href='/create-topic']")
    browser.fill("create-topic", name=name, partitions="3", settings="retention.ms=1000")
    browser.press("Create")
    assert browser.path == f"topics/{name}/records"
    browser.open(f"topics/{name}/partitions")
    assert [row[0] for row in browser.rows()] == ["0", "1", "2"]
    browser.one(".menu > summary").click()
    browser.follow(".menu .danger")
    browser.fill(f"{name}/delete", confirm="another")
    assert not browser.one("button.danger").is_enabled()
    browser.fill(f"{name}/delete", confirm=name)
    browser.press(f"Delete {name}")
    assert browser.path == "topics"
    assert name not in browser.text


def test_one_record_is_written(browser: Browser, topic: str) -> None:
    browser.open(f"topics/{topic}/records")
    browser.follow(".acts a.button")
    browser.fill("records/new", key="k", value="line\nanother", headers="trace: 1\nempty:")
    browser.press("Write 1 record")
    assert [row[2:] for row in browser.rows()] == [["k", "line another"]]
    assert "Headers 2\ntrace\n1\nempty" in browser.text
    record = consumed(browser, topic)
    assert (record.key(), record.value()) == (b"k", b"line\nanother")
    assert record.headers() == [("trace", b"1"), ("empty", b"")]


def test_a_group_is_reset_after_a_preview(browser: Browser, topic: str) -> None:
    produce(browser, topic, *"abcdef")
    group = f"readers {next(_numbers)}"
    commit(browser, group, topic, 4)
    browser.open(f"groups/{quote(group)}")
    assert browser.rows()[0][2] == "4"
    browser.follow("main .acts > a")
    browser.one("input[value='shift']").find_element(By.XPATH, "..").click()
    browser.one("input[name='by']").send_keys("-3")
    browser.press("Preview")
    assert browser.rows() == [[f"{topic} 0", "4", "1", "\N{MINUS SIGN}3", "5"]]
    assert "3 records are read a second time, none is skipped." in browser.text
    reset = browser.one("button.danger")
    assert not reset.is_enabled()
    browser.one("input[name='confirm']").send_keys(group)
    assert reset.is_enabled()
    browser.press("Reset 1 offset")
    assert browser.path == f"groups/{quote(group)}"
    assert browser.rows()[0][2] == "1"


def test_hostile_values_stay_text(browser: Browser, topic: str) -> None:
    hostile = HOSTILE.encode()
    produce(browser, topic, HOSTILE, key=hostile, headers=[(HOSTILE, hostile)])
    commit(browser, HOSTILE, topic, 0)
    browser.open(f"topics/{topic}/records", order="live", columns="key,value,headers")
    browser.wait_for("Live.")
    produce(browser, topic, HOSTILE, key=hostile, headers=[(HOSTILE, hostile)])
    wait_until(lambda: len(browser.rows()) == 2)
    assert all(cell.startswith(HOSTILE[:40]) for row in browser.rows() for cell in row)
    expect_harmless(browser)
    for path, parameters in (
        ("groups", {}),
        (f"groups/{quote(HOSTILE, safe='')}", {}),
        (f"groups/{quote(HOSTILE, safe='')}/reset", {"to": "latest"}),
        ("topic", {"name": HOSTILE}),
        (f"topics/{topic}/groups", {}),
        ("topics", {"search": HOSTILE}),
    ):
        browser.open(path, **parameters)
        if path.startswith("group") or path.endswith("groups"):
            assert HOSTILE in browser.text, path
        expect_harmless(browser)


def expect_harmless(browser: Browser) -> None:
    assert browser.driver.title != "owned"
    scripts = {
        str(script.get_attribute("src")).removeprefix(f"{browser.broker.url}/") for script in browser.all("script")
    }
    own = {path.name for path in files("pylogbroker.web").joinpath("static").iterdir()}
    assert (scripts - own, len(browser.all("img"))) == (set(), 1)


def test_a_restart_under_the_page(browser: Browser, topic: str) -> None:
    browser.open("create-topic")
    browser.fill("create-topic", name="late")
    browser.driver.switch_to.new_window("tab")
    browser.open(f"topics/{topic}/records", order="live")
    browser.wait_for("Live.")
    assert browser.broker.stop() == 0
    browser.wait_for("Stopped, trying again.")
    browser.broker.start()
    browser.wait_for("Live.")
    produce(browser, topic, "after the restart")
    browser.wait_for("after the restart")
    browser.driver.close()
    browser.driver.switch_to.window(browser.driver.window_handles[0])
    browser.press("Create")
    assert "load the page again" in browser.text


def test_figures_change_while_they_are_looked_at(browser: Browser, topic: str) -> None:
    browser.open("topics", search=topic)
    browser.wait_for("live, ")
    assert browser.rows()[0][2] == "0"
    produce(browser, topic, *"abc")
    wait_until(lambda: browser.rows()[0][2] == "3", what=lambda: browser.text)
    field = browser.one("#q")
    field.clear()
    field.send_keys("no-such-topic")
    browser.wait_for("No topic fits")
    field.clear()
    field.send_keys(topic)
    wait_until(lambda: len(browser.all("tbody tr")) == 1)
    produce(browser, topic, *"de")
    wait_until(lambda: browser.rows()[0][2] == "5", what=lambda: browser.text)
    assert browser.broker.stop() == 0
    browser.wait_for("trying again")
    browser.broker.start()
    browser.wait_for("live, ")
    browser.open("")
    browser.wait_for("live, ")


def test_values_of_a_chart(browser: Browser) -> None:
    browser.open("style")
    plot, shown = browser.one(".plot"), browser.one(".at")
    texts = [
        " ".join(str(cell.get_attribute("textContent")) for cell in row.find_elements(By.CSS_SELECTOR, "th, td"))
        for row in browser.all(".samples tbody tr")
    ]
    assert len(texts) == 6
    assert not shown.is_displayed()
    ActionChains(browser.driver).move_to_element_with_offset(plot, plot.size["width"] // 2 - 2, 0).perform()
    assert shown.text == "22:15:50: in 4.77 MiB/s, out 9.54 MiB/s"
    assert texts[0] == "22:15:50 4.77 MiB/s 9.54 MiB/s"
    plot.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert shown.text == "22:14:50: in 3.81 MiB/s, out 7.63 MiB/s"
    assert plot.get_attribute("aria-valuetext") == shown.text
    assert (plot.aria_role, plot.get_attribute("aria-valuenow"), plot.get_attribute("aria-valuemax")) == (
        "slider",
        "3",
        "5",
    )
    plot.send_keys(Keys.HOME)
    assert shown.text.startswith("22:13:20: in 1.91 MiB/s")
    plot.send_keys(Keys.ESCAPE)
    assert not shown.is_displayed()


def test_the_keyboard_reaches_everything(browser: Browser, topic: str) -> None:
    produce(browser, topic, "value")
    browser.open(f"topics/{topic}/records")
    reached = []
    while len(reached) < 60:
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.driver.switch_to.active_element
        if active.tag_name == "body":
            break
        reached.append(active.text or active.get_attribute("name"))
    assert reached[0] == "Skip to the content"
    assert [text.split()[0] for text in reached if text][3:7] == ["Overview", "Topics", "Groups", "Transactions"]
    assert {"where", "Search", "Write a record", "Partitions 1", "0 · 0"} <= set(reached)


def test_page_works_without_scripts(browser: Browser) -> None:
    [topic] = new_topics(browser, 1)
    produce(browser, topic, "first", "second")
    group = f"readers {next(_numbers)}"
    commit(browser, group, topic, 1)
    with opened_browser(browser.broker, "--blink-settings=scriptEnabled=false") as plain:
        plain.open("topics", search=topic)
        plain.follow("tbody a")
        assert f"/ {topic}" in plain.text.replace("\n", " ")
        assert [each.text for each in plain.all("#records td:nth-child(4)")] == ["second", "first"]
        plain.open("groups")
        assert group in plain.text
        plain.open(f"groups/{quote(group)}")
        assert "Nobody reads." in plain.text
        plain.follow("main .acts > a")
        plain.one("input[value='latest']").find_element(By.XPATH, "..").click()
        plain.follow("form.filter button")
        assert "1 record is skipped." in plain.text
        plain.one("input[name='confirm']").send_keys(group)
        plain.follow("button.danger")
        assert "All records up to" in plain.text


def test_many_topics(browser: Browser, budget: Budget) -> None:
    count = budget.of(300, 10_000)
    names = [name for begin in range(0, count, 500) for name in new_topics(browser, min(500, count - begin))]
    browser.open("topics", search="topic-")
    assert len(browser.rows()) == 200
    browser.follow("a[rel='next']")
    assert "201 to " in browser.text
    browser.open("topics", search=names[-1])
    assert [row[0] for row in browser.rows()] == [names[-1]]
