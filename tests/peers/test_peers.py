"""The peers themselves: they can be fetched, compiled, started and talked to, and they say what is wrong."""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.peers import available
from tests.peers.java import CLIENTS, Program
from tests.peers.kafka import KafkaBroker
from tests.peers.maven import PeerError, jars
from tests.peers.tools import TOOLS, tool, tool_jars
from tests.support.brokers import Broker

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
HERE = Path(__file__).parent


def test_unknown_peer_is_named() -> None:
    with pytest.raises(PeerError, match="nothing-like-it"):
        jars("nothing-like-it")


@pytest.mark.parametrize("clients", CLIENTS)
def test_program_runs_with_the_clients_asked_for(clients: str) -> None:
    done = Program(HERE / "Version.java", clients).run("a", "b", input="read\n")
    version, arguments, read = done.stdout.splitlines()
    assert version.startswith(clients.removeprefix("clients-") + ".")
    assert (arguments, read) == ("a,b", "read")


def test_program_that_does_not_compile_shows_why(tmp_path: Path) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("public class Broken { int missing() { } }")
    with pytest.raises(PeerError, match="missing return statement"):
        Program(source).run()


def test_unknown_tool_is_named() -> None:
    with pytest.raises(PeerError, match="kafka-nothing"):
        tool("kafka-nothing")


def test_console_tools_write_and_read(second_broker: Broker, topic: str) -> None:
    server = ("--bootstrap-server", second_broker.bootstrap)
    tool("kafka-topics", *server, "--create", "--topic", topic, "--partitions", "1")
    tool("kafka-console-producer", *server, "--topic", topic, input="one\ntwo\n")
    options = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "200000")
    assert tool("kafka-console-consumer", *server, *options).stdout.splitlines() == ["one", "two"]


def test_tools_of_4_4_and_a_broker_of_4_4(kafka4: Broker, topic: str) -> None:
    server = ("--bootstrap-server", kafka4.bootstrap)
    tool("kafka-topics", *server, "--create", "--topic", topic, "--partitions", "1", release="kafka-4.4")
    tool("kafka-console-producer", *server, "--topic", topic, input="one\ntwo\n", release="kafka-4.4")
    options = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "200000")
    done = tool("kafka-console-consumer", *server, *options, release="kafka-4.4")
    assert done.stdout.splitlines() == ["one", "two"]
    assert done.stderr.endswith("Processed a total of 2 messages\n")
    assert "SLF4J" not in done.stderr
    features = tool("kafka-features", *server, "describe", release="kafka-4.4").stdout
    assert "Feature: share.version" in features
    assert "FinalizedVersionLevel: 4.4-IV" in features
    assert "4.4" in tool("kafka-topics", "--version", release="kafka-4.4").stdout


@pytest.mark.process  # Maven, for jars that are not there yet
@pytest.mark.parametrize("release", TOOLS)
def test_each_tool_of_a_release_is_there(release: str) -> None:
    names = set()
    for path in {path for name in TOOLS[release] for path in tool_jars(name, release)}:
        with zipfile.ZipFile(path) as archive:
            names.update(archive.namelist())
    assert [tool for tool in TOOLS[release].values() if f"{tool.replace('.', '/')}.class" not in names] == []


@pytest.mark.parametrize("release", ["kafka-3.9", "kafka-4.4"])
def test_broker_keeps_its_records_over_a_restart(release: str, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, kafka_release=release).start()
    try:
        server = ("--bootstrap-server", broker.address)
        tool("kafka-console-producer", *server, "--topic", "kept", input="one\ntwo\nthree\n")
        broker.stop()
        broker.start()
        assert tool("kafka-get-offsets", *server, "--topic", "kept").stdout.split() == ["kept:0:3"]
    finally:
        broker.kill()


def test_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, {"num.network.threads": "0"})
    with pytest.raises(PeerError, match=r"num\.network\.threads"):
        broker.start()
    assert broker.process is None


def test_runs_of_one_jvm_have_streams_and_statuses_of_their_own() -> None:
    program = Program(HERE / "Version.java")
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda number: program.run(str(number), input=f"{number}\n" * 5000), range(8)))
    for number, each in enumerate(done):
        assert each.stdout.splitlines()[1:] == [str(number)] * 5001


def test_a_program_that_fails_says_why_and_the_next_one_runs(tmp_path: Path) -> None:
    source = tmp_path / "Failing.java"
    source.write_text('public class Failing { public static void main(String[] a) { throw new Error("no luck"); }}')
    with pytest.raises(PeerError, match=r'Failing.java ended with 1:\nException in thread "main" .*no luck'):
        Program(source).run()
    with pytest.raises(PeerError, match="kafka-topics ended with 1:"):
        tool("kafka-topics", "--nothing-like-it")
    assert "3.9" in tool("kafka-topics", "--version").stdout
