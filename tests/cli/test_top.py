"""`pylogbroker top`: figures of planted samples, frames of given figures, and the command on a terminal."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.cli.top_figures import Figures, History, Sample
from pylogbroker.cli.top_screen import Screen, printed
from pylogbroker.client.admin import PartitionDescription, TopicDescription
from tests.cli.pseudo_terminals import Terminal
from tests.peers.processes import free_ports
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker

KEY = ("orders", 0)
OTHER = ("orders", 1)


def partition(number: int, leader: int | None = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionDescription:
    return PartitionDescription(number, leader, 0, (1, 2), isr, ())


def sample(at: float, end: int, committed: int, **others: Any) -> Sample:
    topic = TopicDescription("orders", UUID(int=1), False, others.pop("partitions", (partition(0), partition(1))))
    sizes = {(1, KEY): end * 100, (2, KEY): end * 100, (1, OTHER): 7}
    values = {
        "sizes": sizes,
        "group_states": {"billing": "Stable", "new": "Empty"},
        "committed": {"billing": {KEY: committed}},
        "brokers": {1: "a:9092", 2: "b:9092"},
        **others,
    }
    return Sample(at=at, topics=(topic,), ends={KEY: end, OTHER: 3}, **values)


def test_a_first_sample_has_no_rates() -> None:
    figures = History().add(sample(10.0, 50, 20))
    [topic] = figures["topics"]
    assert (topic["records_per_second"], topic["bytes_per_second"], topic["bytes"]) == (None, None, 5007)
    assert [(row["group"], row["lag"], row["lag_per_second"]) for row in figures["groups"]] == [
        ("billing", 30, None),
        ("new", None, None),
    ]


def test_rates_are_of_the_last_two_samples() -> None:
    history = History()
    history.add(sample(10.0, 50, 20))
    figures = history.add(sample(14.0, 70, 48))
    [topic] = figures["topics"]
    assert (topic["records_per_second"], topic["bytes_per_second"]) == (5.0, 500.0)
    billing = figures["groups"][0]
    assert (billing["records_per_second"], billing["lag"], billing["lag_per_second"]) == (7.0, 22, -2.0)
    assert [(row["leaders"], row["records_per_second"], row["bytes_per_second"]) for row in figures["brokers"]] == [
        (2, 5.0, 500.0),
        (0, None, 500.0),
    ]
    assert history.add(sample(15.0, 0, 0))["topics"][0]["records_per_second"] == 0  # recreated


def test_sizes_that_a_user_may_not_see_are_unknown() -> None:
    history = History()
    history.add(sample(10.0, 50, 20, sizes=None))
    [topic] = history.add(sample(12.0, 52, 20, sizes=None))["topics"]
    assert (topic["records_per_second"], topic["bytes_per_second"], topic["bytes"]) == (1.0, None, None)


def test_a_lag_that_grows_twice_is_a_problem() -> None:
    history = History()
    problems = [
        history.add(sample(at, end, 20))["groups"][0]["problem"]
        for at, end in ((0.0, 30), (2.0, 40), (4.0, 50), (6.0, 50))
    ]
    assert problems == [None, None, "lag grows", None]


def test_problems_of_replicas() -> None:
    partitions = (partition(0, isr=(1,)), partition(1, leader=None, isr=()))
    figures = History().add(sample(0.0, 30, 20, partitions=partitions, brokers={1: "a:9092"}))
    assert figures["topics"][0]["problem"] == "1 offline, 2 under-replicated"
    assert [row["problem"] for row in figures["brokers"]] == ["1 not in sync", "offline"]


def topics(*names: str) -> Figures:
    rows = [
        {
            "topic": name,
            "partitions": 3,
            "records_per_second": float(rate),
            "bytes_per_second": 2048.0,
            "bytes": 1 << 20,
            "problem": "1 under-replicated" if rate == 1 else None,
        }
        for rate, name in enumerate(names, 1)
    ]
    return {"topics": rows, "groups": [], "brokers": []}


def frame(screen: Screen, figures: Figures, width: int) -> list[str]:
    lines = printed(screen.lines(figures, "14:02:20", width), width, colors=False)
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def test_a_frame_of_120_columns() -> None:
    assert frame(Screen("h:9092"), topics("orders", "clicks"), 120) == [
        "pylogbroker top  h:9092  14:02:20  topics by records/s",
        "t topics  g groups  b brokers  s sort  / filter  q end",
        "",
        "topic   partitions  records/s   bytes/s   bytes  problem",
        "clicks           3        2.0  2.0 KB/s  1.0 MB",
        "orders           3        1.0  2.0 KB/s  1.0 MB  1 under-replicated",
    ]


@pytest.mark.parametrize("width", [120, 80, 50, 20])
def test_narrow_terminals_lose_columns(width: int) -> None:
    lines = frame(Screen("h:9092"), topics("orders" * 12, "clicks\x1b[2J"), width)
    assert len(lines) == 6
    head = lines[3].split()
    expected = {
        120: ["topic", "partitions", "records/s", "bytes/s", "bytes", "problem"],
        80: ["topic", "records/s", "bytes/s", "bytes", "problem"],
        50: ["topic", "problem"],
    }
    assert head == expected.get(width, head)
    assert "\x1b" not in "".join(lines)


def test_keys_choose_what_is_shown() -> None:
    screen = Screen("h:9092")
    figures = topics("orders", "clicks", "payments")
    assert [row["topic"] for row in screen.rows(figures)] == ["payments", "clicks", "orders"]
    for key in "/ERx\x7f\r":
        assert screen.press(key)
    assert [row["topic"] for row in screen.rows(figures)] == ["orders"]
    for key in "/q\x1b":
        assert screen.press(key)
    assert (screen.filter, len(screen.rows(figures))) == ("", 3)
    for _ in range(4):
        screen.press("s")
    assert screen.sorted_by["topics"] == "topic"
    assert [row["topic"] for row in screen.rows(figures)] == ["clicks", "orders", "payments"]
    assert [screen.press(key) and screen.view for key in "gbtx"] == ["groups", "brokers", "topics", "topics"]
    assert not screen.press("q")


def test_a_failure_is_in_the_head_line() -> None:
    screen = Screen("h:9092", failure="h:9092 does not answer since 14:02:18, trying again")
    lines = screen.lines(topics("orders"), "14:02:20", 80)
    assert printed(lines, 80, colors=False)[0] == screen.failure
    assert "\x1b[1;31m" in printed(lines, 80, colors=True)[0]


def test_once_has_rates(broker: Broker, topic: str) -> None:
    runner = CliRunner()
    assert runner.invoke(main, ["topic", "create", topic, "-b", broker.bootstrap]).exit_code == 0
    arguments = ["top", "--once", "--interval", "0.1", "--timeout", "60", "-b", broker.bootstrap]
    done = runner.invoke(main, [*arguments, "--format", "json"])
    assert done.exit_code == 0, done.output
    [row] = [row for row in json.loads(done.stdout)["topics"] if row["topic"] == topic]
    assert (row["partitions"], row["records_per_second"], row["problem"]) == (1, 0.0, None)
    done = runner.invoke(main, [*arguments, "--view", "brokers"])
    assert done.exit_code == 0, done.output
    assert "address" in done.stdout.splitlines()[2]


def test_a_pipe_is_no_terminal(broker: Broker) -> None:
    done = CliRunner().invoke(main, ["top", "-b", broker.bootstrap])
    assert (done.exit_code, done.stderr) == (1, "Error: top needs a terminal: --once prints figures without one\n")


TOP = ("top", "--interval", "0.2")


def test_keys_on_a_terminal(broker: Broker, open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal(*TOP, "-b", broker.bootstrap)
    terminal.expect("topics by records/s")
    terminal.type("g")
    terminal.expect("groups by lag")
    terminal.type("q")
    terminal.check_restored()
    assert terminal.process.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_signals_restore_the_terminal(
    number: int, code: int, broker: Broker, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal(*TOP, "-b", broker.bootstrap)
    terminal.expect("topics by records/s")
    terminal.process.send_signal(number)
    terminal.check_restored()
    assert terminal.process.returncode == code


def test_a_broker_that_goes_away(
    new_broker: Callable[[dict[str, str]], BrokerProcess], open_terminal: Callable[..., Terminal]
) -> None:
    broker = new_broker({})
    broker.start()
    assert CliRunner().invoke(main, ["topic", "create", "kept", "-b", broker.bootstrap]).exit_code == 0
    terminal = open_terminal(*TOP, "-b", broker.bootstrap, "--timeout", "1")
    terminal.expect("kept")
    broker.kill()
    terminal.expect(f"{broker.bootstrap} does not answer since ")
    terminal.expect("kept")
    broker.start()
    terminal.expect("topics by records/s")
    terminal.type("q")
    terminal.check_restored()


def test_a_broker_that_never_answers_is_an_error(open_terminal: Callable[..., Terminal]) -> None:
    [port] = free_ports(1)
    terminal = open_terminal(*TOP, "-b", f"127.0.0.1:{port}", "--timeout", "1")
    terminal.check_restored()
    terminal.expect("Error: ")
    assert terminal.process.returncode == 1
