"""Two sites with a broker each, and an offline broker that has copies of their topics: `twistd -n -y sites.tac`.

All run in this one process, which is enough to try it. In production, each is a process on a machine of its own.
"""

import os
from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from pylogbroker.mirror import MirroredCluster, MirrorService, MirrorSettings, replication_policy
from pylogbroker.tap import makeBroker

application = Application("two_sites")
ports = os.environ.get("TWO_SITES_PORTS", "9092,9093,9094").split(",")
data = Path(os.environ.get("TWO_SITES_DATA", "two-sites"))
clusters = {}
for site, port in zip(("east", "west", "offline"), ports, strict=True):
    address = f"127.0.0.1:{port}"
    clusters[site] = MirroredCluster(address, site)
    settings = {"listeners": f"PLAINTEXT://{address}", "log.dirs": str(data / site), "http.listeners": ""}
    makeBroker(reactor, settings).setServiceParent(application)

mirrors = [
    MirrorSettings(clusters[site], clusters["offline"], policy=replication_policy("prefix")) for site in ("east", "west")
]
MirrorService(reactor, mirrors).setServiceParent(application)
