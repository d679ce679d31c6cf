"""Composition root: makes a service from the options of `twistd pylogbroker`."""

from __future__ import annotations

from twisted.application.service import IService

from pylogbroker.tap.garbage_collection import without_garbage_collection
from pylogbroker.tap.options import Options

__all__ = ["Options", "makeService"]


def makeService(options: Options) -> IService:
    if options.broker_count is not None:
        from pylogbroker.tap.brokers.service import make_service as make_supervisor

        return make_supervisor(options, options.broker_count)
    with without_garbage_collection():
        from pylogbroker.tap.twistd import make_service
    return make_service(options)
