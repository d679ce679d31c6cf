"""Views of lists, and the rates between them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pylogbroker.cli import main, watching
from pylogbroker.cli.watching import RatesBetweenViews, readable_rate, readable_size, views
from tests.support.brokers import Broker


def test_views_come_until_ctrl_c() -> None:
    pauses = Mock(side_effect=[None, None, KeyboardInterrupt])
    seen = []

    @click.command
    @watching.watch_option
    def command(watch: float | None) -> None:
        for _ in views(watch, pauses):
            seen.append(watch)
            if watch == 7:
                raise KeyboardInterrupt  # as while brokers are asked

    for words, expected in (["--watch", "2.5"], [2.5] * 3), (["--watch", "7"], [7]), ([], [None]):
        seen.clear()
        assert CliRunner().invoke(command, words).exit_code == 0
        assert seen == expected
    pauses.assert_called_with(2.5)


def test_rates() -> None:
    rates = RatesBetweenViews(Mock(side_effect=[10.0, 12.0, 12.0]))
    first = rates.of({"a": 100, "b": 5})
    assert first("a") is None
    second = rates.of({"a": 101, "b": None, "c": 1})
    assert [second(name) for name in "abcd"] == [0.5, None, None, None]
    assert rates.of({"a": 7})("a") is None  # no time has passed


def test_sizes() -> None:
    assert [readable_size(size) for size in (None, 0, 999, 1000, 1 << 20, 5 << 60)] == [
        *(None, "0 B", "999 B", "1.0 KB", "1.0 MB", "5120.0 PB"),
    ]
    assert [readable_rate(rate) for rate in (None, -2048.0)] == [None, "-2.0 KB/s"]


def test_lists_are_shown_again(broker: Broker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)

    def produce(_: object = None) -> None:
        done = CliRunner().invoke(main, ["produce", topic, "-b", broker.bootstrap], input="a\nb\n")
        assert done.exit_code == 0

    produce()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    pauses = Mock(side_effect=[None, KeyboardInterrupt] * 3)

    def run(*arguments: Any) -> list[str]:
        monkeypatch.setattr(watching.views, "__defaults__", (lambda seconds: (produce(), pauses(seconds)),))
        done = CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap])
        assert done.exit_code == 0, done.output
        name = topic if arguments[0] == "topic" else group
        return [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]

    first, second = run("topic", "list", "--watch")
    assert first.split()[5:7] != second.split()[5:7]  # the size
    assert (first.split()[-1], second.split()[-1][-2:]) == ("-", "/s")
    first, second = run("group", "list", "--lag", "--watch", "0.5")
    assert int(second.split()[-2]) == int(first.split()[-2]) + 2
    assert float(second.split()[-1]) > 0
    pauses.assert_called_with(0.5)
    first, second = run("group", "lag", "--watch", "1")
    assert (first.split()[1], int(second.split()[5]) - int(first.split()[5])) == (topic, 2)
