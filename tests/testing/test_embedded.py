"""Brokers in programs that twistd runs."""

from __future__ import annotations

import sys
from pathlib import Path
from signal import SIGTERM

from tests.support.line_process import LineProcess
from tests.testing.faults.raw import RawClient

TWISTD = Path(sys.executable).with_name("twistd")
PROGRAM = """
from twisted.application.service import Application
from twisted.internet import reactor

from pylogbroker.tap import makeBroker

application = Application("orders")
broker = makeBroker(reactor, {"log.dirs": "data", "listeners": "PLAINTEXT://127.0.0.1:0"})
broker.setServiceParent(application)
broker.listening.addCallback(lambda listeners: print(f"clients connect to port {listeners[0].port}."))
"""


def test_a_tac_file(tmp_path: Path) -> None:
    (tmp_path / "orders.tac").write_text(PROGRAM)
    with LineProcess([TWISTD, "--nodaemon", "--python", "orders.tac"], cwd=tmp_path) as process:
        found = process.expect(r"clients connect to port (\d+)\.")
        with RawClient(f"127.0.0.1:{found[1]}") as client:
            client.create_topic("t")
            assert client.produce("t").error_code == 0
            assert client.end_offset("t") == 1
        assert process.terminate() == -SIGTERM  # after the services have stopped, twistd ends by the signal
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
