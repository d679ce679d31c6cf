"""Two sites with a broker each, and an offline broker with copies of their topics, and an archive: `twistd -ny sites.tac`.

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
data = Path(os.environ.get("TWO_SITES_DATA", "two-sites")).absolute()
archive = data / "archive"
archive.mkdir(parents=True, exist_ok=True)
clusters = {}
for site, port in zip(("east", "west", "offline"), ports, strict=True):
    address = f"127.0.0.1:{port}"
    clusters[site] = MirroredCluster(address, site)
    settings = {"listeners": f"PLAINTEXT://{address}", "log.dirs": str(data / site), "http.listeners": ""}
    if site == "offline":
        settings |= {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage": f"directory:{archive}",
            "log.retention.ms": "-1",
            "log.local.retention.ms": "60000",  # and all of the following: so that the example shows it soon
            "log.roll.ms": "60000",
            "log.retention.check.interval.ms": "1000",
            "remote.log.manager.task.interval.ms": "1000",
        }
    makeBroker(reactor, settings).setServiceParent(application)

mirrors = [
    MirrorSettings(clusters[site], clusters["offline"], policy=replication_policy("prefix")) for site in ("east", "west")
]
MirrorService(reactor, mirrors).setServiceParent(application)
