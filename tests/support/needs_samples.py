"""Tests that `test_needs.py` collects, and nobody runs: each needs what its name says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import Maker, apache, own
from tests.conftest import make_broker
from tests.peers.kafka import KafkaBroker
from tests.peers.processes import free_ports
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_mode import ZooKeeperModeBroker
from tests.support.line_process import LineProcess
from tests.support.oracle_answers import OracleAnswers


def start(program: str) -> int:
    return subprocess.run([program]).returncode


@pytest.fixture
def started() -> Iterator[LineProcess]:
    with LineProcess(["true"]) as process:
        yield process


@pytest.fixture
def indirect(started: LineProcess) -> LineProcess:
    return started


def test_nothing() -> None:
    assert free_ports(1)


def test_process_of_a_helper() -> None:
    start("true")


def test_process_in_a_lambda() -> None:
    (lambda: partial(start, "true"))()()


def test_process_by_a_local_import(tmp_path: Path) -> None:
    from tests.support.broker_process import BrokerProcess

    BrokerProcess(tmp_path).start()


def test_process_of_a_fixture(indirect: LineProcess) -> None:
    assert indirect.running


@pytest.mark.parametrize("server", ["ZooKeeper"])
def test_process_of_a_parameter(server: str) -> None:
    assert server


def test_kafka(tmp_path: Path) -> None:
    KafkaBroker(tmp_path).start()


def test_kafka_in_zookeeper_mode(tmp_path: Path) -> None:
    ZooKeeperModeBroker(tmp_path, broker_id=1, zookeeper="127.0.0.1:2181").start()


def test_kafka_of_a_cluster(tmp_path: Path) -> None:
    Cluster.make(tmp_path, "127.0.0.1:2181", [partial(apache, protocol="2.7")])


def test_process_of_a_cluster(tmp_path: Path) -> None:
    Cluster.make(tmp_path, "127.0.0.1:2181", [own])


def test_process_of_zookeeper(tmp_path: Path) -> None:
    ZooKeeper(tmp_path).start()


def test_process_that_is_chosen_later(tmp_path: Path) -> None:
    make_broker("", tmp_path, {}).start()


@pytest.mark.parametrize("kind", ["kafka"])
def test_kafka_by_its_parameter(tmp_path: Path, kind: str) -> None:
    make_broker(kind, tmp_path, {}).start()


@pytest.mark.parametrize("maker", [apache])
def test_kafka_of_a_function_as_parameter(tmp_path: Path, maker: Maker) -> None:
    Cluster.make(tmp_path, "127.0.0.1:2181", [maker])


@pytest.mark.parametrize("maker", [own])
def test_process_of_a_function_as_parameter(tmp_path: Path, maker: Maker) -> None:
    Cluster.make(tmp_path, "127.0.0.1:2181", [maker])


def test_oracle(oracle: OracleAnswers) -> None:
    assert oracle.answer("name", "question", lambda: start("java"))


class TestMethods:
    def of_self(self) -> int:
        return start("true")

    def test_process_of_a_method(self) -> None:
        self.of_self()

    def test_nothing(self) -> None:
        assert self


def of_maker(maker: Maker = apache) -> Maker:
    return maker


def test_kafka_of_a_default() -> None:
    assert of_maker() is not own
