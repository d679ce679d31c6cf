"""Read nodes from a running ZooKeeper server."""

from __future__ import annotations

import logging

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from pylogbroker.offline.stopped_broker import OfflineError

_PARTS = ("/brokers", "/config", "/consumers", "/admin")
_TIMEOUT_SECONDS = 10
_WITHOUT_REASON = "Failed connecting to Zookeeper"


class _LastLine(logging.Handler):
    """Keeps the last reason of a failed connection, which kazoo logs and does not raise."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.logger = logging.Logger(__name__)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith(_WITHOUT_REASON):
            self.text = record.getMessage()


def read_server(address: str, chroot: str) -> dict[str, bytes]:
    """Return nodes' data below `chroot` by path; raise OfflineError if the server is unreachable."""
    last = _LastLine()
    client = KazooClient(address, timeout=_TIMEOUT_SECONDS, logger=last.logger)
    nodes: dict[str, bytes] = {}
    try:
        client.start(timeout=_TIMEOUT_SECONDS)
        waiting = [chroot + part for part in _PARTS]
        while waiting:
            path = waiting.pop()
            try:
                nodes[path] = client.get(path)[0] or b""
                waiting += [f"{path}/{name}" for name in client.get_children(path)]
            except NoNodeError:
                continue
    except (KazooTimeoutError, KazooException) as error:
        why = last.text or str(error) or type(error).__name__
        raise OfflineError(f"ZooKeeper at {address} does not answer: {why}") from error
    finally:
        client.stop()
        client.close()
    return nodes
