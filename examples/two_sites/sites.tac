"""Two sites with a broker each, and an offline broker that has copies of their topics: `twistd -n -y sites.tac`.

All run in this one process, which is enough to try it. In production each is a process on its own machine, and mirrors
run beside the offline cluster: `twistd -n pylogbroker-mirror --config mirror.properties`.
"""

import os
from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from pylogbroker.config import properties
from pylogbroker.mirror import MirrorService, mirrors_of
from pylogbroker.tap import makeBroker

application = Application("two_sites")
ports = os.environ.get("TWO_SITES_PORTS", "9092,9093,9094").split(",")
data = Path(os.environ.get("TWO_SITES_DATA", "two-sites"))
addresses = {}
for site, port in zip(("east", "west", "offline"), ports, strict=True):
    addresses[site] = f"127.0.0.1:{port}"
    settings = {"listeners": f"PLAINTEXT://{addresses[site]}", "log.dirs": str(data / site), "http.listeners": ""}
    makeBroker(reactor, settings).setServiceParent(application)

file = properties.read(str(Path(os.environ.get("TWO_SITES_DIRECTORY", ".")) / "mirror.properties"))
file |= {f"{site}.bootstrap.servers": address for site, address in addresses.items()}
MirrorService(reactor, mirrors_of(file)).setServiceParent(application)
