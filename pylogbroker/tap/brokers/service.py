"""The service of `twistd pylogbroker --brokers N`. It imports no broker: the supervisor stays small."""

from __future__ import annotations

from setproctitle import setproctitle
from twisted.application.service import IService, MultiService

from pylogbroker.tap.brokers.supervisor import Supervisor
from pylogbroker.tap.options import Options
from pylogbroker.tap.process_log import PROCESS_LOG
from pylogbroker.tap.process_setup import prepare_process
from pylogbroker.tap.signals import Signals
from pylogbroker.tap.steady_clock import make_steady


def make_service(options: Options, count: int) -> IService:
    from twisted.internet import reactor  # only now has twistd installed it

    prepare_process()
    make_steady(reactor)
    setproctitle(f"pylogbroker: supervisor of {count} brokers")
    brokers = Supervisor(reactor, options.settings, count, options.arguments)
    service = MultiService()
    brokers.setServiceParent(service)
    Signals(reactor, brokers.reload, PROCESS_LOG.reopen).handle()
    return service
