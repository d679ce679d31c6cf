"""Serve a directory's tree by ZooKeeper's protocol; the address is the first line of the output.

`python -m tests.tree.server_process DIRECTORY [PORT [SUPER_DIGEST]]`
"""

from __future__ import annotations

import sys

from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogBeginner, textFileLogObserver

from pylogbroker.tree.database import TreeDatabase, wall_clock_ms
from pylogbroker.tree.server.factory import ServerSettings, ZooKeeperFactory
from pylogbroker.tree.tree_file import TreeFile


def main(directory: str, port: str = "0", super_digest: str = "") -> None:
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    file = TreeFile.open(directory, wall_clock_ms(), keeps_sessions=True)
    database = TreeDatabase(file, deferToThread)
    factory = ZooKeeperFactory(database, reactor, ServerSettings(super_digest=super_digest))
    listening = reactor.listenTCP(int(port), factory, interface="127.0.0.1")
    print(f"127.0.0.1:{listening.getHost().port}", flush=True)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
