"""Faults, recorded requests and the clock of test brokers in another process, used through its control port.

The interface is that of brokers in this process, but arguments that are functions cannot be passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from types import TracebackType
from typing import Any, Final, Self, cast

import attrs

from pylogbroker.testing.clock import Duration, NotSettled, seconds_of
from pylogbroker.testing.control.client import ControlClient
from pylogbroker.testing.control.json_messages import from_json, to_json
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import FaultNotFired, Faults, SeenRequest
from pylogbroker.testing.faults.cluster_faults import ClusterFaults
from pylogbroker.testing.faults.criteria import check_names
from pylogbroker.testing.faults.group_faults import GroupFaults
from pylogbroker.testing.faults.log_faults import LogFaults
from pylogbroker.testing.faults.names import api_key, api_name
from pylogbroker.testing.faults.network import NetworkFaults
from pylogbroker.web.fault_port import FaultRow
from pylogbroker.wire import SUPPORTED

_LISTED: Final = FaultRow.__annotations__.keys()


@attrs.define(eq=False, repr=False)
class Remote:
    """Control of the brokers, while they run."""

    _client: ControlClient | None = None
    silent: list[str] = attrs.field(factory=list, init=False)
    """Sentences about removed faults that had to fire, and did not."""

    def attach(self, client: ControlClient | None) -> None:
        self._client = client

    @property
    def client(self) -> ControlClient:
        if self._client is None:
            raise NotRunning("the broker does not run")
        return self._client

    def call(self, path: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Post the arguments of a method by their names; return the result, or the fault that it made."""
        bound = signature(method).bind(None, *arguments, **named).arguments
        fields = {name: value for name, value in bound.items() if name not in ("self", "criteria", "conditions")}
        check_names(bound.get("criteria", {}), signature(method).parameters)
        fields |= bound.get("criteria", {}) | bound.get("conditions", {})  # the rest of the named ones
        result = self.client.post(path, **_without_functions(fields))
        is_listed = isinstance(result, dict) and result.keys() == _LISTED
        return RemoteFault(self, result["id"], result["description"]) if is_listed else result

    def check_silent(self) -> None:
        """Raise FaultNotFired if a removed fault had to fire, and did not."""
        if self.silent:
            raise FaultNotFired("; ".join(self.silent))


@attrs.frozen(eq=False, repr=False)
class RemoteFault:
    """A fault or a watch."""

    _remote: Remote
    _id: int
    _description: str

    @property
    def hits(self) -> int:
        return int(self._ask("GET")["hits"])

    def wait(self, hits: int = 1, timeout: float = 10.0) -> SeenRequest:
        """Block until so many requests have come; return the last of them. Raise FaultNotFired after `timeout`."""
        return _seen(self._remote.client.post(f"/faults/{self._id}/wait", hits=hits, timeout=timeout))

    def release(self) -> None:
        """Let held requests go on, and later ones pass."""
        self._remote.client.post(f"/faults/{self._id}/release")

    def remove(self) -> None:
        try:
            self.finish()
        except FaultNotFired as failure:
            self._remote.silent.append(str(failure))

    def finish(self) -> None:
        """Remove it; raise FaultNotFired if it is a fault that had to fire, and did not."""
        self._ask("DELETE")

    def _ask(self, method: str) -> Any:
        return self._remote.client.ask(method, f"/faults/{self._id}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        except FaultNotFired:
            if error is None:  # otherwise that error says more
                raise

    def __str__(self) -> str:
        return self._description


@attrs.frozen(eq=False, repr=False)
class RemoteChaos:
    """Chaos until `remove`, or `clear` of the faults."""

    _remote: Remote
    _id: int

    def remove(self) -> None:
        """End it; raise LookupError if it has ended."""
        self._remote.client.ask("DELETE", f"/chaos/{self._id}")


@attrs.frozen(eq=False, repr=False)
class _Part:
    """Methods of one class of faults, by their names."""

    _remote: Remote
    _name: str
    _methods: type

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._methods, name)
        return lambda *arguments, **named: self._remote.call(f"/{self._name}/{name}", method, *arguments, **named)


@attrs.define(eq=False, repr=False)
class RemoteRequests:
    """The last requests of clients; their `context` is None."""

    _remote: Remote

    def of(self, api: str) -> list[SeenRequest]:
        return [_seen(request) for request in self._remote.client.get(f"/requests?api={api_name(api_key(api))}")]

    def __iter__(self) -> Iterator[SeenRequest]:
        return iter([_seen(request) for request in self._remote.client.get("/requests")])

    def __len__(self) -> int:
        return len(self._remote.client.get("/requests"))

    def clear(self) -> None:
        self._remote.client.ask("DELETE", "/requests")


class RemoteFaults:
    """Faults of brokers in another process, until that ends."""

    def __init__(self) -> None:
        self._remote = Remote()
        self.requests: Final = RemoteRequests(self._remote)
        self.cluster: Final = _Part(self._remote, "cluster", ClusterFaults)
        self.groups: Final = _Part(self._remote, "groups", GroupFaults)
        self.logs: Final = _Part(self._remote, "logs", LogFaults)
        self.network: Final = _Part(self._remote, "network", NetworkFaults)

    def attach(self, client: ControlClient | None) -> None:
        self._remote.attach(client)

    def add(self, *arguments: Any, **named: Any) -> Any:
        return self._remote.call("/faults", Faults.add, *arguments, **named)

    def watch(self, api: str | int | None = None, **criteria: Any) -> Any:
        return self._remote.call("/watches", Faults.watch, api, **criteria)

    def chaos(self, seed: int, rate: float = 0.1) -> RemoteChaos:
        return RemoteChaos(self._remote, self._remote.call("/chaos", Faults.chaos, seed, rate)["id"])

    def cap_versions(self, release: str | None = None, **by_api: Any) -> None:
        self._remote.client.post("/versions", release=release, apis=by_api)

    def reject_connections(self, broker: int | None = None) -> None:
        self._remote.call("/connections/reject", Faults.reject_connections, broker)

    def accept_connections(self) -> None:
        self._remote.client.post("/connections/accept")

    def check(self) -> None:
        """Raise FaultNotFired if a fault with `must_fire` has not fired."""
        self._remote.check_silent()
        self._remote.client.post("/faults/check")

    def clear(self) -> None:
        """Remove all faults and watches, then `check` the removed."""
        try:
            self._remote.client.ask("DELETE", "/faults")
            self._remote.check_silent()
        finally:
            self._remote.silent.clear()


class RemoteClock:
    """Clock of brokers in another process; the time stays moved when they are restarted."""

    def __init__(self) -> None:
        self._remote = Remote()
        self._offset = 0.0

    def attach(self, client: ControlClient | None) -> None:
        self._remote.attach(client)
        if client is not None and self._offset:
            client.post("/clock/advance", duration=self._offset)

    def time(self) -> float:
        """Return the seconds since 1970."""
        return float(self._remote.client.get("/clock")["seconds"])

    def advance(self, duration: Duration) -> None:
        """Move the time by `"1h"`, `"90s"`, a timedelta or seconds; return when what was due is done.

        Raise NotSettled if that takes longer than 10 seconds: the time has moved then.
        """
        seconds = seconds_of(duration)
        try:
            self._remote.client.post("/clock/advance", duration=seconds)
        except NotSettled:
            self._offset += seconds
            raise
        self._offset += seconds


def _without_functions(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as JSON has them; raise ValueError for a function."""
    for name, value in fields.items():
        if callable(value):
            raise ValueError(f"{name}: a function cannot be passed to a broker in another process")
    return {name: to_json(value) for name, value in fields.items()}


def _seen(fields: Mapping[str, Any]) -> SeenRequest:
    request = from_json(SUPPORTED[api_key(fields["api"])][0], fields["request"])
    return SeenRequest(**{**fields, "request": request}, context=cast(Any, None))
