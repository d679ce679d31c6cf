"""`pylogbroker mirror`, as a process, and `twistd pylogbroker-mirror`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.client.sync import SimpleConsumer
from pylogbroker.testing import Broker
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        source.produce(source.create_topic("orders"), "tea", "milk")
        yield source, target


def run(*words: str) -> tuple[int, list[str]]:
    process = LineProcess([sys.executable, "-m", "pylogbroker.cli", "mirror", *words], forked=True)
    return process.wait(60), process.lines


def test_records_are_copied_and_figures_shown(brokers: tuple[Broker, Broker]) -> None:
    source, target = brokers
    clusters = "--from", source.bootstrap, "--to", target.bootstrap
    status, lines = run(*clusters, "--until-caught-up", "--format", "json")
    assert status == 0, lines
    figures = json.loads([line for line in lines if line.startswith("{")][-1])
    assert (figures["records"], figures["lag"], figures["is_caught_up"]) == (2, 0, True)
    assert figures["partitions"] == [{"topic": "orders", "partition": 0, "position": 2, "end": 2, "lag": 0}]
    assert [message.value for message in target.records("orders")] == [b"tea", b"milk"]


def test_stopped_topic_is_said_and_shown_by_the_status(brokers: tuple[Broker, Broker]) -> None:
    source, target = brokers
    source.produce(source.create_topic("large"), "x" * 2000)
    target.create_topic("large", **{"max.message.bytes": 1000})
    clusters = "--from", source.bootstrap, "--to", target.bootstrap
    status, lines = run(*clusters, "--topics", "large", "--until-caught-up", "-q")
    assert status == 1
    assert "topic large is not mirrored" in lines[-1]
    assert "--set max.message.bytes=" in lines[-1]


def test_choice_without_a_topic_is_said_with_the_topics_that_there_are(brokers: tuple[Broker, Broker]) -> None:
    source, target = brokers
    status, lines = run("--from", source.bootstrap, "--to", target.bootstrap, "--topics", "order", "--until-caught-up")
    assert status == 0
    [line] = [line for line in lines if "no topic is copied" in line]
    assert "none matches topics=order; the source has " in line
    assert "orders" in line
    assert len([line for line in lines if "caught up" in line]) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "give --from and --to, or --config"),
        (("--from", "127.0.0.1:1"), "give --from and --to, or --config"),
        (("--from", "nowhere", "--to", "127.0.0.1:1"), "--from: there is no profile nowhere; an address is HOST:PORT"),
        (("--from", "a:1", "--to", "b:1", "--names", "nice"), "replication.policy.class: 'nice' is not accepted"),
        (("--from", "a:1", "--to", "b:1", "--topics", "("), "topics: '(' is not a regular expression"),
        (("--from", "a:1", "--to", "b:1", "--max-bytes-per-second", "fast"), "expected a size such as 10MB"),
        (("--config", "/nonexistent"), "/nonexistent: No such file or directory"),
    ],
)
def test_errors_are_one_line_with_the_cure(words: tuple[str, ...], error: str, tmp_path: Path) -> None:
    runner = CliRunner(env={"PYLOGBROKER_CONFIG": str(tmp_path / "none.toml")})
    result = runner.invoke(main, ["mirror", *words])
    assert result.exit_code != 0
    assert error in result.output
    assert "Traceback" not in result.output


def test_unreachable_cluster_is_named() -> None:
    status, lines = run("--from", "127.0.0.1:1", "--to", "127.0.0.1:1", "-q")
    assert status == 1
    assert "the source 127.0.0.1:1 cannot be used: cannot connect to 127.0.0.1:1" in lines[-1]


def test_settings_that_are_misspelt_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\n"
        "a->b.enabled = true\na->b.topic = orders\n"
    )
    _, lines = run("--config", str(file), "-q")
    assert lines[0] == "settings that mirrors do not use: a->b.topic"


def test_service_of_twistd_waits_for_a_cluster_and_stops_cleanly(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    source, target = brokers
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = a, b\na.bootstrap.servers = {source.bootstrap}\nb.bootstrap.servers = {target.bootstrap}\n"
        "a->b.enabled = true\na->b.topics = orders\n"
    )
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    process = LineProcess(
        [*command, "-n", f"--pidfile={tmp_path / 'pid'}", "pylogbroker-mirror", "--config", str(file)]
    )
    try:
        host, _, port = target.bootstrap.rpartition(":")
        wait_until(lambda: "a.orders" in target.topics, 60)
        with SimpleConsumer(host, int(port)) as consumer:
            wait_until(lambda: len(list(consumer.fetch("a.orders", 0, 0))) == 2, 60)
        process.terminate(60)
        assert "Server Shut Down" in process.lines[-1]
        assert not [line for line in process.lines if "Traceback" in line or "Unhandled" in line]
    finally:
        process.kill()
