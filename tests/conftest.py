"""Options and fixtures that several test packages share.

`--against kafka` starts Apache Kafka (tests/peers) in the broker's place, `--against HOST:PORT` uses a broker that
runs already: both tell whether a test asks for what Kafka does. By default the broker is this project's, in a process.
"""

from __future__ import annotations

import itertools
import re
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker, ExternalBroker, KafkaProcess

hypothesis.settings.register_profile("untimed", deadline=None)  # machines are noisy: no test is timed
hypothesis.settings.load_profile("untimed")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    if signal.getsignal(_number) is signal.SIG_IGN:  # by nohup or a shell's background job; children would inherit that
        signal.signal(_number, lambda *_: None)  # a handler is reset to the default when a child executes a program
_counter = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--against",
        metavar="kafka|HOST:PORT",
        default="",
        help="run the tests of clients against Apache Kafka, or a broker at this address, and not against ours",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: its file takes a minute or more, and is begun first")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Else one process would be left with a long file at the end, and the others idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def against(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--against"))


@pytest.fixture(scope="session")
def broker(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running broker for the whole session; tests keep apart by the names of topics and groups."""
    running = make_broker(against, tmp_path_factory.mktemp("broker"), {})
    running.start()
    yield running
    running.kill()
    assert running.complaints() == []


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Apache Kafka, beside the session's own broker."""
    running = KafkaProcess(tmp_path_factory.mktemp("kafka"), {})
    running.start()
    yield running
    running.kill()


@pytest.fixture
def new_broker(against: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Makes brokers of the test's own, `new_broker(**settings)`, not yet started, each on a directory of its own."""
    if against not in ("", "kafka"):
        pytest.skip("a broker that runs already cannot be started and ended by a test")
    made: list[Broker] = []

    def make(settings: dict[str, str] | None = None) -> Broker:
        made.append(make_broker(against, tmp_path / f"broker-{len(made)}", settings or {}))
        return made[-1]

    yield make
    for each in made:
        each.kill()
    assert [each.complaints() for each in made] == [[] for _ in made]


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
    if against == "kafka":
        return KafkaProcess(directory, settings)
    if against:
        return ExternalBroker(against)
    return BrokerProcess(directory, settings)
