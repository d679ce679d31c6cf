"""Composition root: makes a service from the options of `twistd pylogbroker`, or one for a program that embeds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService

from pylogbroker.errors import ConfigError
from pylogbroker.tap.garbage_collection import collector_disabled, without_garbage_collection

with collector_disabled():
    from pylogbroker.tap.options import Options

if TYPE_CHECKING:
    from pylogbroker.tap.service import BrokerService

__all__ = ["Options", "makeBroker", "makeService"]


def makeService(options: Options) -> IService:
    if options.broker_count is not None:
        from pylogbroker.tap.brokers.service import make_service as make_supervisor

        return make_supervisor(options, options.broker_count)
    with without_garbage_collection():
        from pylogbroker.tap.twistd import make_service
    return make_service(options)


def makeBroker(reactor: Any, settings: Mapping[str, Any]) -> BrokerService:
    """Return a broker to compose with a program's other services; raise ConfigError for a wrong setting.

    Settings have Kafka's names, with dots or underscores, and texts, numbers, booleans or lists as values. Its
    `listening` is a Deferred of the listeners, or of the start's failure.
    """
    if not callable(getattr(reactor, "callLater", None)):
        raise ConfigError(f"reactor: {reactor!r} is not accepted; expected a reactor of Twisted")
    with collector_disabled():
        from pylogbroker.tap.service import BrokerService

    return BrokerService(reactor, settings)
