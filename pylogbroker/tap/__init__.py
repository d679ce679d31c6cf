"""The composition root: `twistd pylogbroker`'s options in, a service out.

twistd calls `Options` to read the command line and `makeService` to get what it runs. Settings are read and checked by
the options, before anything is opened; directories and ports are opened when the service starts.
"""

from __future__ import annotations

from pylogbroker.tap.options import Options
from pylogbroker.tap.service import BrokerService, make_service

makeService = make_service  # noqa: N816  (twistd calls it)

__all__ = ["BrokerService", "Options", "makeService"]
