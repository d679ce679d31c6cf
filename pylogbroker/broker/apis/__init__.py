"""APIs that this broker serves, one module for each.

To add an API, declare its message in `pylogbroker.wire.messages` and put its module here.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from pylogbroker.broker.api import Api, registered


def _import_all() -> tuple[Api, ...]:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return registered()


APIS = _import_all()
