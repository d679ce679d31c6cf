"""Blocking client of a control, in the test's process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn
from urllib.error import HTTPError
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

import attrs

from pylogbroker.client.sync.background import TimedOut
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, StartupError
from pylogbroker.testing.clock import NotSettled
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import FaultNotFired

_ANSWER_SECONDS: Final = 60.0
_TYPES: Final[Mapping[str, Callable[[str], Exception]]] = {
    error_type.__name__: error_type
    for error_type in (
        ConfigError,
        FaultNotFired,
        LookupError,
        NotRunning,
        NotSettled,
        StartupError,
        TimedOut,
        TypeError,
        ValueError,
    )
}
_OF_STATUS: Final[Mapping[int, Callable[[str], Exception]]] = {
    400: ValueError,
    404: LookupError,
}
"""For errors of other types."""


@attrs.frozen(eq=False, repr=False)
class ControlClient:
    """Any thread may ask."""

    address: str
    _opener: OpenerDirector = attrs.field(factory=lambda: build_opener(ProxyHandler({})), init=False)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, **fields: Any) -> Any:
        return self.ask("POST", path, fields)

    def ask(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        """Return the answer; raise what the brokers' process has raised, with the same text."""
        data = None if fields is None else json.dumps(fields).encode()
        request = Request(f"{self.address}/api{path}", data, {"Content-Type": "application/json"}, method=method)
        waits = float((fields or {}).get("timeout", 0.0))
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS + waits) as answer:
                return json.load(answer)
        except HTTPError as error:
            _raise(error)


def _raise(error: HTTPError) -> NoReturn:
    with error:
        answer = json.load(error)
    text = answer["error"]
    if "code" in answer:
        raise KafkaError(text, ErrorCode[answer["code"]]) from None
    raise (_TYPES.get(answer["type"]) or _OF_STATUS.get(error.code, RuntimeError))(text) from None
