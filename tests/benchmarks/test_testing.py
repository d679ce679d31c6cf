"""The benchmark of the seam for faults, with few calls."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import testing
from pylogbroker.net.routes import Routes
from pylogbroker.testing import Broker


def test_testing_benchmark_measures_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "CALLS", 5)
    result = CliRunner().invoke(testing.main, ["--rounds", "2", "--starts", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()  # warnings of the broker are in the output, too
    assert [line.partition(":")[0] for line in lines[:4]] == [
        testing.DIRECT,
        testing.NO_FAULTS,
        testing.AGAIN,
        testing.FAULTS,
    ]
    assert lines[4].startswith("start of a broker: ")


def test_a_route_without_faults_has_the_handler_itself() -> None:
    with Broker() as broker:
        apis = broker.faults.broker.apis
        routes = Routes(apis, broker.faults.broker)
        assert all(routes.find(api.key, api.versions.last).handle is api.handle for api in apis)
