"""The service of `twistd pylogbroker --brokers N`. It imports no broker: the supervisor stays small."""

from __future__ import annotations

from twisted.application.service import IService, MultiService

from pylogbroker.config import BrokerConfig
from pylogbroker.tap.brokers.supervisor import Supervisor
from pylogbroker.tap.options import Options
from pylogbroker.tap.process_log import PROCESS_LOG
from pylogbroker.tap.process_setup import prepare_process
from pylogbroker.tap.signals import Signals


def make_service(options: Options, count: int) -> IService:
    from twisted.internet import reactor  # only now has twistd installed it

    prepare_process()
    settings = options.settings
    directories = BrokerConfig({"log.dirs": settings["log.dirs"]} if "log.dirs" in settings else {}).log_dirs
    brokers = Supervisor(reactor, settings, count, directories, options.arguments)
    service = MultiService()
    brokers.setServiceParent(service)
    Signals(reactor, brokers.reload, PROCESS_LOG.reopen).handle()
    return service
