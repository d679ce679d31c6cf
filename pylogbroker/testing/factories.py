"""Makers of pytest's fixtures, for brokers with other settings than the plugin's own.

    from pylogbroker.testing import factories

    small_segments = factories.broker_proc(log_segment_bytes=100_000)
    small_kafka = factories.kafka("small_segments")

Assigned in a conftest.py or in a test's module, they are fixtures of these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Final

import pytest

from pylogbroker.features import on_first_use
from pylogbroker.testing.options import PluginOptions

if TYPE_CHECKING:
    from pylogbroker import errors
    from pylogbroker.testing import broker as testing_broker
    from pylogbroker.testing import clients as testing_clients
    from pylogbroker.testing import external as testing_external
    from pylogbroker.testing import handle as testing_handle
    from pylogbroker.testing.broker import Broker
    from pylogbroker.testing.external import ExternalBroker
    from pylogbroker.testing.handle import Kafka
else:
    errors = on_first_use("pylogbroker.errors")
    testing_broker = on_first_use("pylogbroker.testing.broker")
    testing_clients = on_first_use("pylogbroker.testing.clients")
    testing_external = on_first_use("pylogbroker.testing.external")
    testing_handle = on_first_use("pylogbroker.testing.handle")

MARKER: Final = "kafka_broker"


def broker_proc(settings: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
    """Return a fixture of a broker that runs for the whole session, on each worker; arguments of `Broker`.

    They take precedence over the flags of pytest and its ini file, which hold for all other settings.
    """

    @pytest.fixture(scope="session")
    def kafka_broker_proc(pytestconfig: pytest.Config) -> Iterator[Broker]:
        with ExitStack() as stack:
            try:
                broker = testing_broker.Broker(**PluginOptions(pytestconfig).of_broker(settings, **arguments))
                stack.enter_context(broker)
            except errors.PylogbrokerError as error:
                pytest.fail(str(error), pytrace=False)
            yield broker

    return kafka_broker_proc


def broker_noproc(bootstrap: str = "", client_settings: Mapping[str, str] | None = None) -> Any:
    """Return a fixture of a Kafka that runs elsewhere, by default at `--kafka-bootstrap`.

    `client_settings` come on top of those of flags and ini file.
    """

    @pytest.fixture(scope="session")
    def kafka_broker_noproc(pytestconfig: pytest.Config) -> Iterator[ExternalBroker]:
        options = PluginOptions(pytestconfig)
        address = bootstrap or options.bootstrap
        if not address:
            pytest.fail("kafka_broker_noproc: name a running Kafka with --kafka-bootstrap HOST:PORT", pytrace=False)
        with ExitStack() as stack:
            try:
                external = testing_external.ExternalBroker(
                    address, {**options.client_settings, **(client_settings or {})}
                )
                broker = stack.enter_context(external)
            except errors.PylogbrokerError as error:
                pytest.fail(f"--kafka-bootstrap {address}: {error}", pytrace=False)
            yield broker

    return kafka_broker_noproc


def kafka(proc: str = "kafka_broker_proc", noproc: str = "kafka_broker_noproc") -> Any:
    """Return a fixture of one test's `Kafka`, on the broker of a fixture.

    With `--kafka-bootstrap`, the fixture `noproc` replaces `proc`.
    """

    @pytest.fixture
    def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
        options = PluginOptions(request.config)
        with _own_broker(request.node, options) as own:
            broker = own or request.getfixturevalue(noproc if options.bootstrap else proc)
            with testing_handle.Kafka(broker, request.node.name, testing_clients.clients_of(options.client)) as handle:
                yield handle

    return kafka


def _own_broker(test: Any, options: PluginOptions) -> Any:
    """Return the broker of a test that has the marker, or None, as a context manager."""
    marker = test.get_closest_marker(MARKER)
    if marker is None:
        return nullcontext()
    if options.bootstrap:
        pytest.skip(f"{MARKER}: the settings of the Kafka at {options.bootstrap} are its own")
    return testing_broker.Broker(**options.of_broker(*marker.args, **marker.kwargs))
