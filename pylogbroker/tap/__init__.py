"""The composition root: `twistd pylogbroker`'s options in, a service out.

twistd calls `Options` to read the command line and `makeService` to get what it runs. Settings are read and checked by
the options, before anything is opened; directories and ports are opened when the service starts.
"""

from __future__ import annotations

from twisted.application.service import IService

from pylogbroker.tap.garbage import nothing_is_garbage
from pylogbroker.tap.options import Options

__all__ = ["Options", "makeService"]


def makeService(options: Options) -> IService:
    """What twistd runs: a service with the broker in it."""
    with nothing_is_garbage():
        from pylogbroker.tap.twistd import make_service
    return make_service(options)
