"""Imports of all that a broker may need later, for processes that lose sight of the package's files.

After twistd has changed the root directory or the user, no file of Python's may be readable any more. The handlers of
APIs, installed plugins and parts for which settings ask would be imported only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pylogbroker.broker import apis
from pylogbroker.discovery import remember_installed

_PARTS: Final = (
    "pylogbroker.broker.membership.cluster_role",
    "pylogbroker.broker.security.authorizer",
    "pylogbroker.broker.security.delegation.manager",
    "pylogbroker.broker.security.listener_tls",
    "pylogbroker.broker.security.sasl_listeners",
    "pylogbroker.tree.zookeeper",
    "pylogbroker.legacy07.server.connection",
    "pylogbroker.net.sasl_protocol",
    "pylogbroker.tap.zookeeper",
)
"""Modules that a start imports where settings ask for them."""


def import_all() -> None:
    for name in _PARTS:
        import_module(name)
    apis.import_all()
    remember_installed()
