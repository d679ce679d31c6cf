"""`twistd pylogbroker-mirror`: mirrors of a properties file as a process."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.python import usage

from pylogbroker.config import properties
from pylogbroker.errors import ConfigError
from pylogbroker.mirror.configuration import mirrors_of
from pylogbroker.mirror.garbage import freeze_existing_objects
from pylogbroker.mirror.service import MirrorService
from pylogbroker.mirror.settings import MirrorSettings

__all__ = ["Options", "makeService"]


class MirrorOptions(usage.Options):
    synopsis = "--config FILE [--from ALIAS] [--to ALIAS] [--metrics HOST:PORT]"
    longdesc = "Copies topics between clusters, each record once, until it is stopped."
    optParameters = [
        ["config", "c", None, "Properties file with clusters and mirrors; names are those of MirrorMaker 2."],
        ["from", "f", "", "Only mirrors from this cluster of the file."],
        ["metrics", "m", "", "Serve metrics for Prometheus at this address, HOST:PORT."],
        ["to", "t", "", "Only mirrors to this cluster of the file."],
    ]

    mirrors: list[MirrorSettings]

    def postOptions(self) -> None:
        values: dict[str, Any] = dict(self)
        if values["config"] is None:
            raise usage.UsageError("--config is missing: a properties file with clusters and mirrors")
        try:
            self.mirrors = mirrors_of(properties.read(values["config"]), values["from"], values["to"])
        except ConfigError as error:
            raise usage.UsageError(str(error)) from error


Options = MirrorOptions


def makeService(options: MirrorOptions) -> MirrorService:
    service = MirrorService(reactor, options.mirrors, metrics_address=dict(options)["metrics"])
    reactor.callWhenRunning(freeze_existing_objects)
    return service
