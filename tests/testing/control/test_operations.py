"""Each operation that the description of the control has, driven against a broker."""

from __future__ import annotations

import json
import sys
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pylogbroker.testing.control.site import control_document
from tests.support.line_process import LineProcess
from tests.testing.control.test_control import check

_ONE: Final = {"topic": "one", "partition": 0}
REQUESTS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("GET", "/broker", None),
    ("GET", "/clock", None),
    ("POST", "/clock/advance", {"duration": 0.5}),
    ("GET", "/client_settings", None),
    (
        "POST",
        "/topics",
        {"name": "one", "partitions": 2, "settings": {"cleanup.policy": "compact"}},
    ),
    ("POST", "/topics", {"name": "two"}),
    ("GET", "/topics", None),
    ("DELETE", "/topics/two", None),
    ("POST", "/topics/one/records", {"values": ["a", "b"], "key": "k", "partition": 0, "headers": [["h", None]]}),
    ("GET", "/topics/one/records", None),
    ("GET", "/groups", None),
    ("DELETE", "/groups/nobody", None),
    ("GET", "/transactions", None),
    ("GET", "/requests?api=Metadata", None),
    ("DELETE", "/requests", None),
    ("POST", "/faults", {"api": "Metadata", "delay": 0.001, "times": None}),
    ("GET", "/topics", None),
    ("GET", "/faults", None),
    ("GET", "/faults/1", None),
    ("POST", "/faults/1/wait", {"hits": 1}),
    ("POST", "/faults/1/release", None),
    ("DELETE", "/faults/1", None),
    ("POST", "/faults/check", None),
    ("POST", "/watches", {"api": "Fetch", "sender": "any"}),
    ("POST", "/versions", {"release": "2.8", "apis": {"Fetch": [4, 11], "Produce": 7, "EndTxn": None}}),
    ("POST", "/chaos", {"seed": 1, "rate": 0}),
    ("DELETE", "/chaos/1", None),
    ("POST", "/connections/reject", {}),
    ("POST", "/connections/accept", {}),
    ("DELETE", "/faults", None),
    ("POST", "/logs/delete_records", {**_ONE, "before": 1}),
    ("POST", "/logs/truncate", {**_ONE, "to": 1}),
    ("POST", "/logs/retain", None),
    ("POST", "/logs/compact", _ONE),
    ("POST", "/logs/fail_appends", {**_ONE, "error": "ENOSPC", "times": None}),
    ("POST", "/groups/members", {"group": "g"}),
    ("POST", "/groups/rebalance", {"group": "g"}),
    ("POST", "/groups/fence", {"group": "g"}),
    ("POST", "/network/shape", {"direction": "up", "latency": 0, "seed": 1}),
    ("POST", "/network/stall", {"direction": "down"}),
    ("POST", "/network/heal", None),
    ("POST", "/network/reset", None),
    ("POST", "/cluster/add_broker", {"broker": 5}),
    ("POST", "/cluster/move_leader", {**_ONE, "to": 5}),
    ("POST", "/cluster/remove_leader", _ONE),
    ("POST", "/cluster/move_coordinator", {"group": "g", "to": 5}),
    ("POST", "/cluster/lag_metadata", None),
    ("POST", "/cluster/update_metadata", None),
    ("POST", "/cluster/remove_broker", {"broker": 5}),
    ("POST", "/broker/restart", {}),
    ("POST", "/broker/down", None),
    ("POST", "/broker/up", {"broker": None}),
)


FAILING: Final = {("/groups/rebalance", 400), ("/groups/fence", 400)}
"""Operations on a group without members."""


def test_all_operations_answer_as_described() -> None:
    paths = control_document()["paths"]
    asked = set()
    with LineProcess([sys.executable, "-m", "pylogbroker.testing", "--override", "broker.id=0"]) as process:
        address = json.loads(process.expect(r"^\{.*\}$").group())["control"]
        for method, path, body in REQUESTS:
            data = None if body is None else json.dumps(body).encode()
            request = Request(f"{address}/api{path}", data, {"Content-Type": "application/json"}, method=method)
            try:
                with urlopen(request, timeout=120) as answer:
                    check(method, path, json.load(answer))
            except HTTPError as error:
                found = error.read().decode()
                if (path, error.code) not in FAILING:
                    raise AssertionError(f"{method} {path}: {found}") from error
                check(method, path, json.loads(found), error.code)
            asked.add((method.lower(), _template(f"/api{path}", paths)))
    assert asked == {(method, path) for path, methods in paths.items() for method in methods}


def _template(path: str, templates: Any) -> str:
    """Return the described path of an address."""
    parts = path.partition("?")[0].split("/")
    found = [
        template
        for template in templates
        if len(each := template.split("/")) == len(parts)
        and all(name in (part, "{id}", "{name}", "{topic}") for name, part in zip(each, parts, strict=True))
    ]
    return min(found, key=lambda template: template.count("{"))
