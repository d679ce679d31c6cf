"""Login of the brokers of `--brokers N` at the tree of their supervisor, which serves nobody else on that address.

The supervisor makes a password at its start. A broker gets it in a variable of its environment. Other users of the
machine cannot see that, nor the socket that it came over: the variable is set after the process has begun.
"""

from __future__ import annotations

import os
from typing import Final

from pylogbroker.tree.zookeeper_options import ZooKeeperLogin

USER: Final = "pylogbroker"
_VARIABLE: Final = "PYLOGBROKER_TREE_PASSWORD"


def keep(password: str) -> None:
    """Keep the password until this process connects to the tree."""
    os.environ[_VARIABLE] = password


def take() -> ZooKeeperLogin | None:
    """Return the login, None for a broker without such a supervisor. Processes that it starts do not get it."""
    password = os.environ.pop(_VARIABLE, "")
    return ZooKeeperLogin(USER, password) if password else None
