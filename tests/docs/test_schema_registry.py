"""The programs of docs/schema-registry.md run, and what they write is read as the page says."""

from __future__ import annotations

from pathlib import Path

import attrs

from tests.docs.page_programs import ROOT, programs
from tests.peers.processes import free_ports
from tests.support.broker_process import BrokerProcess

PAGE = ROOT / "docs" / "schema-registry.md"


def test_the_page(tmp_path: Path) -> None:
    place = f"127.0.0.1:{free_ports(1)[0]}"
    broker = BrokerProcess(tmp_path / "broker", {"schema.registry.listeners": f"http://{place}"})
    broker.start()
    try:
        for program in programs(PAGE):
            here = attrs.evolve(program, text=program.text.replace("127.0.0.1:8081", place))
            assert here.run(broker.bootstrap, tmp_path) == (program.output or ""), program.text
    finally:
        broker.stop()
    assert broker.unexpected_errors() == []
