"""Options, markers and fixtures that several test packages share.

`--against kafka` starts Apache Kafka 3.9 (tests/peers) in the broker's place, `--against kafka4` Kafka 4.4, and
`--against HOST:PORT` uses a broker that runs already. They show whether a test asks for what Kafka does. By default the
broker is this project's, in a process.

Each test gets the markers that `tests.support.needs` finds from its code:

- `process`: it starts a process. `make quick` leaves these out.
- `kafka`: it starts Apache Kafka. `make test` leaves these out; `make oracle` runs them.
- `benchmark`: it runs a benchmark, which starts processes. `make test` leaves these out; `make oracle` runs them.
- `oracle`: it compares with recorded answers of Kafka's programs, as `tests.support.oracle_answers` says. With `--ask`
  or `--record` these programs are started.

Hypothesis takes the number of examples from a profile, `--hypothesis-profile quick`, `test` (the default) or `oracle`.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import hypothesis
import pytest
from _pytest import unittest as pytest_unittest

from tests.peers import available as java_available
from tests.peers import spark
from tests.support import budget, memory_files, run_services, second_tries, spark_session, work_units
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import KAFKA_RELEASES, Broker, ExternalBroker, KafkaProcess
from tests.support.needs import PROCESS, needs
from tests.support.oracle_answers import OracleAnswers
from tests.support.process_guard import ProcessGuard
from tests.support.shared_brokers import shared_broker, shared_kafka
from tests.support.shared_zookeeper import zookeeper_chroot  # noqa: F401  (a fixture)
from tests.support.signal_handlers import kept_handlers
from tests.tree.tree_server import tree_chroot  # noqa: F401  (a fixture)

# Machines are noisy: no example has a time limit.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10)
hypothesis.settings.register_profile("test", deadline=None, max_examples=25)
hypothesis.settings.register_profile("oracle", deadline=None, max_examples=500)
hypothesis.settings.load_profile("test")

# A shell ignores SIGINT in a background job, and nohup ignores SIGHUP. Processes inherit that a signal is ignored, but
# no handlers: so brokers obey these signals, and nohup still keeps the tests alive.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

os.environ.setdefault("SPARK_HOME", str(spark.home()))

# The developer's own settings of the command are none of the tests'.
for _name in [name for name in os.environ if name.startswith("PYLOGBROKER_")]:
    del os.environ[_name]
os.environ["PYLOGBROKER_CONFIG"] = "/nonexistent"

_BENCHMARKS = Path(__file__).parent / "benchmarks"
_counter = itertools.count()
_guard = ProcessGuard()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(budget)
    pluginmanager.register(memory_files)
    pluginmanager.register(run_services)
    pluginmanager.register(second_tries)
    pluginmanager.register(spark_session)
    pluginmanager.register(work_units)
    if pluginmanager.hasplugin("xdist"):
        from tests.support import xdist_scheduler

        pluginmanager.register(xdist_scheduler)
    parser.addoption(
        "--against",
        metavar="kafka|kafka4|HOST:PORT",
        default="",
        help="run the tests of clients against Apache Kafka, or a broker at this address, and not against ours",
    )
    parser.addoption("--ask", action="store_true", help="ask Kafka's programs, and compare with the recorded answers")
    parser.addoption("--record", action="store_true", help="ask Kafka's programs, and record their answers")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "process: the test starts a process (found from its code)")
    config.addinivalue_line("markers", "kafka: the test starts Apache Kafka (found from its code)")
    config.addinivalue_line("markers", "benchmark: the test runs a benchmark with processes (found from its directory)")
    config.addinivalue_line("markers", "oracle: the test uses recorded answers of Kafka's programs")
    _guard.install()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep modules and tests out of garbage collections: they stay until the end, and there are many of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no commands of benchmarks, which import all clients, where no benchmark is to run."""
    selected = str(config.getoption("markexpr"))
    runs_none = "not benchmark" in selected or "not process" in selected
    return True if runs_none and collection_path == _BENCHMARKS / "test_commands.py" else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set the markers before `-m` selects by them."""
    found = needs(item, asks=_asks(item.config))
    for need in found:
        item.add_marker(need)
    if PROCESS in found and item.path.is_relative_to(_BENCHMARKS):
        item.add_marker("benchmark")


def pytest_collection_finish() -> None:
    """Keep Twisted's version: pytest reads it from a file for each test, which takes a third of short tests' time."""
    version = pytest_unittest._get_twisted_version()
    pytest_unittest._get_twisted_version = lambda: version


def _asks(config: pytest.Config) -> bool:
    return bool(config.getoption("--ask") or config.getoption("--record"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _no_process_unless_marked(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _no_process_unless_marked(item), kept_handlers():
        return (yield)


def _no_process_unless_marked(item: pytest.Item) -> AbstractContextManager[None]:
    return nullcontext() if item.get_closest_marker(PROCESS) else _guard.forbid(item.nodeid)


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest) -> OracleAnswers:
    """The answers of Kafka's programs: recorded ones, unless `--ask` or `--record` is given."""
    config = request.config
    if _asks(config) and not java_available():
        pytest.skip("Java and Maven are not installed")
    return OracleAnswers(bool(config.getoption("--ask")), bool(config.getoption("--record")))


@pytest.fixture(scope="session")
def against(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--against"))


@pytest.fixture(scope="session")
def broker(against: str, pytestconfig: pytest.Config) -> Broker:
    """One running broker for the whole run; tests keep apart by the names of topics and groups."""
    if against in KAFKA_RELEASES:
        return shared_kafka(pytestconfig, against)
    return ExternalBroker(against) if against else shared_broker(pytestconfig)


@pytest.fixture(scope="session")
def second_broker(pytestconfig: pytest.Config) -> Broker:
    """Apache Kafka 3.9, beside the run's own broker."""
    return shared_kafka(pytestconfig)


@pytest.fixture(scope="session")
def kafka4(pytestconfig: pytest.Config) -> Broker:
    """Apache Kafka 4.4, beside the run's own broker."""
    return shared_kafka(pytestconfig, "kafka4")


@pytest.fixture
def new_broker(against: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Makes brokers of the test's own, `new_broker(**settings)`, not yet started, each on a directory of its own."""
    if against not in ("", *KAFKA_RELEASES):
        pytest.skip("a broker that runs already cannot be started and ended by a test")
    made: list[Broker] = []

    def make(settings: dict[str, str] | None = None) -> Broker:
        made.append(make_broker(against, tmp_path / f"broker-{len(made)}", settings or {}))
        return made[-1]

    yield make
    for each in made:
        each.kill()
    assert [each.unexpected_errors() for each in made] == [[] for _ in made]


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names, of topics and groups, that nobody has used."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")
    return lambda: f"{stem}-{next(_counter)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    """The name of a topic that does not exist yet."""
    return fresh_name()


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    """The name of a group that does not exist yet."""
    return fresh_name()


def make_broker(against: str, directory: Path, settings: dict[str, str]) -> Broker:
    if against in KAFKA_RELEASES:
        return KafkaProcess(directory, settings, release=KAFKA_RELEASES[against])
    if against:
        return ExternalBroker(against)
    return BrokerProcess(directory, settings)
