"""Composition root: makes a service from the options of `twistd pylogbroker`.

The options check the settings before anything is opened; the service opens directories and ports when it starts.
"""

from __future__ import annotations

from twisted.application.service import IService

from pylogbroker.tap.garbage_collection import without_garbage_collection
from pylogbroker.tap.options import Options

__all__ = ["Options", "makeService"]


def makeService(options: Options) -> IService:
    """Return the service for twistd."""
    with without_garbage_collection():
        from pylogbroker.tap.twistd import make_service
    return make_service(options)
