"""Composition root: makes a service from the options of `twistd pylogbroker`."""

from __future__ import annotations

from twisted.application.service import IService

from pylogbroker.tap.garbage_collection import without_garbage_collection
from pylogbroker.tap.options import Options

__all__ = ["Options", "makeService"]


def makeService(options: Options) -> IService:
    with without_garbage_collection():
        from pylogbroker.tap.twistd import make_service
    return make_service(options)
