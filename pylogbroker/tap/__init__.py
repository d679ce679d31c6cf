"""Composition root: makes a service from the options of `twistd pylogbroker`, or one for a program that embeds it."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.tap.garbage_collection import collector_disabled, without_garbage_collection

with collector_disabled():
    from pylogbroker.tap.options import Options

if TYPE_CHECKING:
    from pylogbroker.tap import service as broker_service
    from pylogbroker.tap import twistd as process_service
    from pylogbroker.tap.brokers import service as supervisor_service
    from pylogbroker.tap.service import BrokerService
else:
    broker_service = on_first_use("pylogbroker.tap.service")
    process_service = on_first_use("pylogbroker.tap.twistd")
    supervisor_service = on_first_use("pylogbroker.tap.brokers.service")

__all__ = ["Options", "makeBroker", "makeService"]


def makeService(options: Options) -> IService:
    if options.broker_count is not None:
        return supervisor_service.make_service(options, options.broker_count)
    with without_garbage_collection():
        make_service = process_service.make_service
        linecache.clearcache()  # attrs keeps 1 MB of the source of generated methods there, for tracebacks
    return make_service(options)


def makeBroker(reactor: Any, settings: Mapping[str, Any]) -> BrokerService:
    """Return a broker to compose with a program's other services; raise ConfigError for a wrong setting.

    Settings have Kafka's names, with dots or underscores, and texts, numbers, booleans or lists as values. Its
    `listening` is a Deferred of the listeners, or of the start's failure.
    """
    if not callable(getattr(reactor, "callLater", None)):
        raise ConfigError(f"reactor: {reactor!r} is not accepted; expected a reactor of Twisted")
    with collector_disabled():
        make = broker_service.BrokerService
    return make(reactor, settings)
