"""The package of examples/, installed as its readers would install it, found by a broker, and seen to delete."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.broker_process import BrokerProcess
from tests.support.example_environment import install_example, run_tests_of
from tests.support.line_process import LineProcess

TWISTD = "from twisted.scripts.twistd import run; run()"
UNKNOWN = (
    "log.delete.policies: 'newest:3' is not accepted; "
    "expected any of archive-parquet, modification-time, newest-segments, record-time, size; no others are installed"
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("newest_segments", tmp_path_factory.mktemp("environment"))


@pytest.fixture
def broker(python: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, {"log.segment.delete.delay.ms": "0"}, python)
    yield running
    running.kill()
    assert running.unexpected_errors() == []


def test_tests_of_the_example_pass(python: Path) -> None:
    run_tests_of("newest_segments", python)


def fill(bootstrap: str, topic: str, batches: int) -> None:
    """Send `batches` batches of one record, two of which fit into a segment of 1,000 bytes."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(batches):
        producer.produce(topic, b"%03d" % number * 120)
        assert producer.flush(120) == 0


def wait_for_deletion(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    """The number of segments that were deleted and where the log begins, as the broker says."""
    found = broker.process.expect(rf"(\d+) old segments? of \S+{topic}_0 (?:is|are) deleted, it begins at (\d+) now")
    return int(found[1]), int(found[2])


def bases(broker: BrokerProcess, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in broker.partition_dir(topic, 0).glob("*.kafka"))


def test_a_topic_keeps_its_newest_segments(broker: BrokerProcess) -> None:
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name, policies in {"counted": "newest-segments:3", "plain": "record-time,size"}.items():
        config = {"segment.bytes": "1000", "delete.policies": policies}
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(60)
        fill(broker.bootstrap, name, 20)
    assert bases(broker, "plain") == list(range(0, 20, 2))
    started = 0
    while started < 14:  # rounds may come while it is being filled
        _, started = wait_for_deletion(broker, "counted")
    assert (started, bases(broker, "counted"), len(bases(broker, "plain"))) == (14, [14, 16, 18], 10)

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition("counted", 0), 120) == (14, 20)
    consumer.assign([TopicPartition("counted", 0, 14)])
    assert [record.offset() for record in consumer.consume(6, 120)] == list(range(14, 20))
    consumer.close()

    change = [ConfigEntry("delete.policies", "newest-segments:1", incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ResourceType.TOPIC, "plain", incremental_configs=change)
    admin.incremental_alter_configs([resource])[resource].result(60)
    assert wait_for_deletion(broker, "plain") == (9, 18)


def test_errors_of_the_plugin_reach_the_client(broker: BrokerProcess) -> None:
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"delete.policies": "newest-segments:none"}
    with pytest.raises(KafkaException, match="expected how many segments are kept"):
        admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(60)


def test_an_unknown_name_ends_the_start(python: Path, tmp_path: Path) -> None:
    command = [python, "-c", TWISTD, "-n", "pylogbroker", "--override=log.delete.policies=size,newest:3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"pylogbroker: {UNKNOWN}" in done.stderr.splitlines()
    assert os.listdir(tmp_path) == []


def start(python: Path, directory: Path) -> LineProcess:
    """A broker with what lies in a directory of others on its path."""
    arguments = [f"--data-dir={directory / 'data'}", "--listener=PLAINTEXT://127.0.0.1:0"]
    policies = "--override=log.delete.policies=size,newest-segments:1"
    command = [python, "-c", TWISTD, "-n", "--pidfile=", "pylogbroker", *arguments, policies]
    return LineProcess(command, cwd=directory, environment={"PYTHONPATH": str(directory / "others")})


@pytest.mark.parametrize("module", ["raise RuntimeError('broken')", "import no_such_package", "policy = object()"])
def test_a_plugin_that_cannot_be_loaded_keeps_nobody_from_starting(python: Path, tmp_path: Path, module: str) -> None:
    directory = tmp_path / "others" / "pylogbroker" / "plugins"
    directory.mkdir(parents=True)
    (directory / "broken_plugin.py").write_text(module)
    with start(python, tmp_path) as process:
        process.expect("listening on PLAINTEXT")
        process.terminate()
        said = "\n".join(process.lines)
    assert bool(re.search("RuntimeError|ModuleNotFoundError", said)) == module.startswith(("raise", "import"))


def test_plugins_are_found_without_a_writable_cache(python: Path, tmp_path: Path) -> None:
    directory = tmp_path / "others" / "pylogbroker" / "plugins"
    (directory / "dropin.cache" / "in the way").mkdir(parents=True)
    (directory / "other_plugin.py").write_text(
        "from pylogbroker.plugins.delete_policies import BuiltIn\n"
        "again = BuiltIn('newest-segments', '', lambda setting: None)\n"
    )
    with start(python, tmp_path) as process:  # two claim the name now: so the second was found
        process.expect("more than one delete policy is named newest-segments")
        process.expect("^pylogbroker: log.delete.policies: 'newest-segments:1' is not accepted")
        assert process.wait() == 1
