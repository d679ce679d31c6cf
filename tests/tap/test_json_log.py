"""Log lines as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from twisted.logger import Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure

from pylogbroker.config import Endpoint
from pylogbroker.tap.brokers.plan import plan
from pylogbroker.tap.json_log import json_file_observer
from tests.support.line_process import LineProcess
from tests.tap.test_process import ANY_PORT
from tests.tap.test_process_log import ENVIRONMENT, RUN


def logged(text: str, level: LogLevel = LogLevel.info, **fields: Any) -> dict[str, Any]:
    file = io.StringIO()
    Logger("a.b", observer=LogPublisher(json_file_observer(file))).emit(level, text, **fields)
    (line,) = file.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event_is_one_object() -> None:
    line = logged("{count} lines\nin {place}", LogLevel.warn, count=2, place=Endpoint("A", "h", 1), secret="hidden")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warn",
        "namespace": "a.b",
        "text": "2 lines\nin A://h:1",
        "fields": {"count": 2, "place": "A://h:1"},
    }


def test_hidden_values_are_not_fields() -> None:
    assert "hidden" not in json.dumps(logged("done", password="hidden"))
    assert logged("{endpoint.host} and {seconds:.2f}", endpoint=Endpoint("A", "h", 1), seconds=1 / 3)["fields"] == {
        "endpoint": "A://h:1",
        "seconds": 1 / 3,
    }


def test_a_failure_has_its_traceback() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        failure = Failure()
    line = logged("it failed", log_failure=failure)
    assert "ValueError: broken" in line["traceback"]
    assert (line["text"], "fields" in line) == ("it failed", False)


def test_brokers_of_a_supervisor_write_text_for_it() -> None:
    planned = plan({"logger.format": "json"}, 2).brokers
    assert [broker.overrides["logger.format"] for broker in planned] == ["text", "text"]


def test_a_process_writes_json(tmp_path: Path) -> None:
    command = [*RUN, "-n", "pylogbroker", "-d", "data", ANY_PORT, "--log-format", "json"]
    with LineProcess(command, cwd=tmp_path, environment=ENVIRONMENT, forked=True) as process:
        process.expect(r'"text": "listening on PLAINTEXT')
        lines = [json.loads(line) for line in process.lines]
    assert all(line.keys() >= {"time", "level", "namespace", "text"} for line in lines)
    assert any(line.get("fields", {}).get("version") for line in lines)
