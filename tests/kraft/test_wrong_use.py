"""Wrong use of a member of a cluster of KRaft controllers: one line with the remedy, and nothing is touched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import capturedLogs, eventAsText

from pylogbroker.cli import main
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.testing import Broker
from tests.kraft.served import served_controller
from tests.kraft.test_members import SETTINGS, Cluster

COPY = "__cluster_metadata-0"
MEMBER = {**SETTINGS, "node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9001"}


def contents(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            {"process.roles": "controller"},
            "process.roles: 'controller' is not accepted; expected broker, or broker,controller: controllers alone are "
            "Apache Kafka's",
        ),
        (
            {"process.roles": "broker,controller", "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"},
            "process.roles: broker,controller is not accepted together with controllers of a quorum, .*; set "
            "process.roles=broker to join their cluster",
        ),
        (
            {"zookeeper.connect": "127.0.0.1:2181"},
            "process.roles: is not accepted together with zookeeper.connect; remove the one",
        ),
        ({"controller.listener.names": ""}, "set controller.listener.names"),
        ({"controller.quorum.bootstrap.servers": ""}, "set controller.quorum.bootstrap.servers"),
        ({"controller.quorum.bootstrap.servers": "1@127.0.0.1:9093"}, "expected host:port"),
        ({"node.id": "-1"}, "set node.id"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9001,controller://127.0.0.1:9093"},
            "listeners: CONTROLLER is not accepted, it is in controller.listener.names: .*; remove it from listeners",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "listener.security.protocol.map: expected a protocol for the controllers' listener CONTROLLER",
        ),
    ],
)
def test_settings_are_rejected_in_one_line(cluster: Cluster, changed: dict[str, str], line: str) -> None:
    path = cluster.format(1)
    before = contents(path)
    with pytest.raises((ConfigError, StartupError), match=line) as raised:
        cluster.start(1, **{name.replace(".", "_"): text for name, text in changed.items()})
    assert "\n" not in str(raised.value)
    cluster.services.clear()
    assert contents(path) == before


def test_a_single_node_with_both_roles_is_a_broker_alone() -> None:
    """Kafka's own server.properties has these settings."""
    own = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
    assert not BrokerConfig({**own, "controller.listener.names": "CONTROLLER"}).in_cluster


def test_the_number_of_a_broker_that_runs_is_named(cluster: Cluster) -> None:
    cluster.start(1)
    directory = cluster.format(7)
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=7", "node.id=1"))
    before = contents(directory)
    with pytest.raises(StartupError, match=r"within 20 s: another broker runs with this node\.id; give each its own"):
        cluster.start(7, node_id="1", log_dirs=str(directory))
    cluster.services.pop(7)
    assert {
        name: text for name, text in contents(directory).items() if "checkpoint" not in name and COPY not in name
    } == before


def test_the_clusters_id_is_compared_before_anything_is_written(cluster: Cluster) -> None:
    directory = cluster.format(1, "YW5vdGhlciBjbHVzdGVy")
    before = contents(directory)
    with pytest.raises(StartupError, match=r"INCONSISTENT_CLUSTER_ID: the controllers are of another cluster: compare"):
        cluster.start(1)
    cluster.services.clear()
    assert contents(directory) == before


class OtherProtocol(Protocol):
    """Answers the first bytes with those of `answers`, or ends the connection."""

    def __init__(self, answers: bytes) -> None:
        self._answers = answers

    def dataReceived(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(self._answers)
        self.transport.loseConnection()


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        (b"", "does it speak Kafka's protocol without TLS? See the protocol of CONTROLLER in listener.security."),
        (b"\x15\3\3\0\2\2\x50", "an answer in TLS; see the protocol of CONTROLLER in listener.security.protocol.map"),
    ],
    ids=["silence", "alert"],
)
def test_controllers_with_tls_name_the_setting(cluster: Cluster, answers: bytes, line: str) -> None:
    cluster.reactor.listen("127.0.0.1", 9999, Factory.forProtocol(lambda: OtherProtocol(answers)))
    with capturedLogs() as events:
        service = cluster.begin(1, controller_quorum_bootstrap_servers="127.0.0.1:9999")
        cluster.reactor.advance(5)
    service.listening.addErrback(lambda failure: None)
    cluster.stop(1)
    [warning] = [text for text in map(eventAsText, events) if "gives the metadata" in text]
    assert line in warning


def test_a_directory_of_another_number_is_rejected(cluster: Cluster) -> None:
    directory = cluster.format(3)
    before = contents(directory)
    with pytest.raises(StartupError, match=r"is formatted for node.id 3, this is 1"):
        cluster.start(1, log_dirs=str(directory))
    cluster.services.clear()
    assert contents(directory) == before


def test_directories_of_the_other_modes_are_rejected(tmp_path: Path) -> None:
    alone, member = tmp_path / "alone", tmp_path / "member"
    with Broker(data_dir=alone) as broker:
        broker.create_topic("orders")
    before = contents(alone)
    with served_controller() as served:
        servers = served.address
        with Broker(engine="kraft", controller_quorum_bootstrap_servers=servers, node_id=7, data_dir=member) as broker:
            broker.create_topic("orders")
        kept = contents(member)
        settings = {**MEMBER, "controller.quorum.bootstrap.servers": servers, "log.dirs": str(alone)}
        file = tmp_path / "server.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        formatted = CliRunner().invoke(main, ["storage", "format", "-t", "AAAA", "-c", str(file)])
        assert (formatted.exit_code, len(formatted.stderr.splitlines())) == (1, 1)
        assert "A broker with another source of metadata cannot be converted; choose another" in formatted.stderr
    with pytest.raises(StartupError, match="is formatted for a cluster of KRaft controllers: set process"):
        Broker(data_dir=member / "broker-7").start()
    assert contents(alone) == before
    assert contents(member) == kept


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a member that has stopped, with its properties."""
    path = tmp_path_factory.mktemp("member")
    with served_controller() as served:
        servers = served.address
        with Broker(engine="kraft", controller_quorum_bootstrap_servers=servers, node_id=7, data_dir=path) as broker:
            broker.create_topic("orders")
            broker.produce("orders", "tea")
    settings = {**MEMBER, "node.id": "7", "log.dirs": str(path / "broker-7")}
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    (path / "server.properties").write_text(text)
    return path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*arguments])
    return done.exit_code, done.output


NOT_HERE = "the topics, settings and users of this broker are at the KRaft controllers, .* with --bootstrap-server"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("coordination", "rebuild"), NOT_HERE),
        (("migrate", "kafka07", "{path}/old"), NOT_HERE),
        (("migrate", "zookeeper", "127.0.0.1:1"), NOT_HERE),
        (("backup", "create", "{path}/copy"), "a member of a cluster of KRaft controllers has its topics there"),
        (("user", "list"), "users: the broker is in a cluster; name a file, or a running broker by --bootstrap-server"),
    ],
)
def test_tools_for_a_coordination_tree_are_not_for_members(
    stopped: Path, arguments: tuple[str, ...], line: str
) -> None:
    (stopped / "old").mkdir(exist_ok=True)
    before = contents(stopped)
    texts = [text.replace("{path}", str(stopped)) for text in arguments]
    code, output = run(*texts, "--config", str(stopped / "server.properties"))
    assert code == 1
    assert re.search(line, output)
    assert len(output.splitlines()) == 1
    assert contents(stopped) == before


def test_tools_for_logs_work(stopped: Path) -> None:
    [segment] = (stopped / "broker-7" / "orders_0").glob("*.kafka")
    code, output = run("verify", "--config", str(stopped / "server.properties"))
    assert code == 0
    assert f"1 batch, {segment.stat().st_size} bytes: 0 problems" in output.splitlines()[-1]
    code, output = run("dump", "--records", str(segment))
    assert code == 0
    assert "tea" in output
