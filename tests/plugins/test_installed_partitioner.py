"""The partitioner of examples/, installed as its readers would install it, and found by a client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2

from pylogbroker.partition_hash import partition_of_key
from tests.support.broker_process import BrokerProcess
from tests.support.example_environment import install_example, run_tests_of

LOOK_UP = """
import json
from pylogbroker.client.plugin_guards import Partitioners
from pylogbroker.errors import ConfigError

said = []
for name in ("key-prefix", "key-suffix"):
    try:
        Partitioners("partitioner.class", name, {})
    except ConfigError as error:
        said.append(str(error))
partition = Partitioners("partitioner.class", "key-prefix:/", {}).of("t").partition
print(json.dumps([said, [partition(b"anna/%d" % number, 50) for number in range(5)]]))
"""
PRODUCE = """
import json
import sys
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react
from pylogbroker.client import Producer

async def produce(reactor, bootstrap):
    producer = Producer(bootstrap, settings={"partitioner.class": "key-prefix:/"}, reactor=reactor)
    sent = [producer.send("orders", b"", b"%s/%d" % (name, number)) for name in sys.argv[2:] for number in range(3)]
    print(json.dumps([(await each).partition for each in sent]))
    await producer.close()

sys.argv[2:] = [name.encode() for name in sys.argv[2:]]
react(lambda reactor, bootstrap: ensureDeferred(produce(reactor, bootstrap)), sys.argv[1:2])
"""
REJECTED = [
    "partitioner.class: 'key-prefix' is not accepted; expected what a prefix ends with: key-prefix:/",
    "partitioner.class: 'key-suffix' is not accepted; expected any of hash, key-prefix, random, round-robin; "
    "no others are installed",
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("key_prefix", tmp_path_factory.mktemp("environment"))


def test_tests_of_the_example_pass(python: Path) -> None:
    run_tests_of("key_prefix", python)


def test_settings_choose_the_partitioner(python: Path) -> None:
    done = subprocess.run([python, "-c", LOOK_UP], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [REJECTED, [partition_of_key(b"anna", 50)] * 5]


def test_a_producer_uses_the_partitioner(python: Path, tmp_path: Path) -> None:
    names = ["anna", "bob", "carl", "dora"]
    broker = BrokerProcess(tmp_path, {"num.partitions": "5"})
    broker.start()
    try:
        command = [python, "-c", PRODUCE, broker.bootstrap, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    finally:
        broker.kill()
    partitions = [(murmur2(name.encode()) & 0x7FFFFFFF) % 5 for name in names]
    assert len(set(partitions)) > 1
    assert json.loads(done.stdout) == [partition for partition in partitions for _ in range(3)]
