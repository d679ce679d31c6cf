"""Commands of the control: a table of routes, each of which calls the test broker, and returns values of JSON."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict, Unpack, cast

import attrs

from pylogbroker.testing.broker import Broker
from pylogbroker.testing.control.json_messages import from_json, to_json
from pylogbroker.testing.faults import Faults, SeenRequest, Watch
from pylogbroker.testing.faults.cluster_faults import ClusterFaults
from pylogbroker.testing.faults.group_faults import GroupFaults
from pylogbroker.testing.faults.log_faults import LogFaults
from pylogbroker.testing.faults.names import api_key, api_name
from pylogbroker.testing.faults.network import NetworkFaults
from pylogbroker.web.fault_port import FaultCriteria, FaultFields, FaultRow, fault_row
from pylogbroker.web.router import HttpRoute
from pylogbroker.wire import SUPPORTED

_PARTS: Final[Mapping[str, tuple[type, tuple[str, ...]]]] = {
    "cluster": (
        ClusterFaults,
        (
            *("move_leader", "remove_leader", "move_coordinator", "add_broker", "remove_broker"),
            *("lag_metadata", "update_metadata"),
        ),
    ),
    "logs": (LogFaults, ("delete_records", "truncate", "retain", "compact", "fail_appends")),
    "groups": (GroupFaults, ("members", "rebalance", "fence")),
    "network": (NetworkFaults, ("shape", "stall", "heal", "reset")),
}
"""Methods of the parts of `Faults`: their names are those of the paths."""
_BROKER: Final = ("down", "up", "restart")
_WATCHING: Final = ("fail_appends",)
_ANSWERS: Final = {"members": list[str], **dict.fromkeys(_WATCHING, FaultRow)}

Encoding = Annotated[Literal["text", "base64"], "form of keys and values"]
Id = Annotated[int, "id of a fault or a watch"]
Cap = int | tuple[int, int] | None


class NotFound(LookupError):
    """There is no such fault or chaos."""


class Addresses(TypedDict):
    bootstrap: str
    ids: Annotated[list[int], "broker ids"]
    listeners: Annotated[list[dict[str, str]], "of each broker: addresses by the names of its listeners"]
    schema_registry: Annotated[str | None, "URL of the schema registry, null without one"]


class Seconds(TypedDict):
    seconds: float


class ChaosRow(TypedDict):
    id: int


class MessageRow(TypedDict):
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]


class RequestRow(TypedDict):
    api: str
    version: int
    client_id: str | None
    principal: str
    broker: int
    connection: int
    seconds: float
    request: Annotated[dict[str, Any], "fields of the request, bytes as base64"]


def _encode(data: bytes | None, encoding: str) -> str | None:
    """Raise ValueError for bytes that are no text."""
    if data is None:
        return None
    return data.decode() if encoding == "text" else b64encode(data).decode()


def _decode(text: str | None, encoding: str) -> bytes | None:
    """Raise ValueError for a text that is no base64."""
    if text is None:
        return None
    return text.encode() if encoding == "text" else b64decode(text, validate=True)


@attrs.define(eq=False, repr=False)
class Commands:
    """Commands on one broker; any thread may run them. They raise ValueError or TypeError for wrong arguments."""

    broker: Broker
    _chaos: dict[int, Callable[[], None]] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    @property
    def faults(self) -> Faults:
        return cast(Faults, self.broker.faults)  # the brokers are in this process

    def addresses(self) -> Addresses:
        """Return the addresses of the broker."""
        broker = self.broker
        registry = broker.schema_registry.url if broker.has_schema_registry else None
        return {
            "bootstrap": broker.bootstrap,
            "ids": [*broker.ids],
            "listeners": [*broker.listeners],
            "schema_registry": registry,
        }

    def time(self) -> Seconds:
        """Return the brokers' time, in seconds since 1970."""
        return {"seconds": self.broker.clock.time()}

    def advance(self, duration: Annotated[str | float, "1h30m, 90s, 500ms, 7d, or seconds"]) -> None:
        """Move the brokers' time forward; the answer comes when all that was due is done."""
        self.broker.clock.advance(duration)

    def client_settings(self, user: Annotated[str | None, "by default the first"] = None) -> dict[str, str]:
        """Return settings of a client, with librdkafka's names."""
        return self.broker.client_settings(user)

    def topics(self) -> dict[str, int]:
        """Return topics without internal ones, with their numbers of partitions."""
        return dict(self.broker.topics)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        settings: Mapping[str, str | int | float | bool] | None = None,
        replication_factor: int = -1,
    ) -> None:
        """Create a topic."""
        self.broker.create_topic(name, partitions, replication_factor=replication_factor, **(settings or {}))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; a missing one is no error."""
        self.broker.delete_topic(name)

    def records(
        self,
        topic: str,
        encoding: Encoding = "text",
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> list[MessageRow]:
        """Return all records of a topic, by partition and offset."""
        return [
            {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _encode(record.key, encoding),
                "value": _encode(record.value, encoding),
                "headers": [(name, _encode(value, encoding)) for name, value in record.headers],
            }
            for record in self.broker.records(topic, isolation_level=isolation_level)
        ]

    def produce(
        self,
        topic: str,
        values: Sequence[str | None],
        key: str | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        encoding: Encoding = "text",
    ) -> list[int]:
        """Append records, and return their offsets."""
        return self.broker.produce(
            topic,
            *(_decode(value, encoding) for value in values),
            key=_decode(key, encoding),
            headers=[(name, _decode(value, encoding)) for name, value in headers],
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

    def groups(self) -> list[str]:
        """Return the ids of consumer groups."""
        return [*self.broker.groups]

    def delete_group(self, id: str) -> None:
        """Delete a group without members; a missing one is no error."""
        self.broker.delete_group(id)

    def transactions(self) -> list[str]:
        """Return the transactional ids of open transactions."""
        return [*self.broker.open_transactions]

    def requests(self, api: Annotated[str | None, "name of an API"] = None) -> list[RequestRow]:
        """Return the last requests of clients."""
        requests = self.faults.requests
        return [_seen(seen) for seen in (requests if api is None else requests.of(api_name(api_key(api))))]

    def forget_requests(self) -> None:
        """Forget the last requests."""
        self.faults.requests.clear()

    def list_faults(self) -> list[FaultRow]:
        """Return faults and watches, also those that the page added."""
        watches = sorted((*self.faults.listed(), *self.faults.watched()), key=lambda watch: watch.id)
        return [fault_row(watch) for watch in watches]

    def add_fault(
        self,
        answer: Annotated[dict[str, Any] | None, "fields of the response, bytes as base64"] = None,
        **fields: Unpack[FaultFields],
    ) -> FaultRow:
        """Add a fault."""
        message = None if answer is None else from_json(SUPPORTED[api_key(fields.get("api") or "")][1], answer)
        return fault_row(self.faults.add(answer=message, **fields))

    def watch(self, api: str | int | None = None, **criteria: Unpack[FaultCriteria]) -> FaultRow:
        """Count requests; a watch has the paths of a fault."""
        return fault_row(self.faults.watch(api, **criteria))

    def clear_faults(self) -> None:
        """Remove all faults; 409 if one with must_fire never fired."""
        self._chaos.clear()
        self.faults.clear()

    def check_faults(self) -> None:
        """Answer 409 if a fault with must_fire has not fired."""
        self.faults.check()

    def fault(self, id: Id) -> FaultRow:
        """Return a fault or watch and its hits."""
        return fault_row(self._find(id))

    def remove_fault(self, id: Id) -> None:
        """Remove a fault or watch; 409 if it is a fault with must_fire that has not fired."""
        self._find(id).finish()

    def release_fault(self, id: Id) -> FaultRow:
        """Let held requests go on, and later ones pass."""
        watch = self._find(id)
        watch.release()
        return fault_row(watch)

    def wait_for_fault(self, id: Id, hits: int = 1, timeout: Annotated[float, "seconds"] = 10.0) -> RequestRow:
        """Wait for hits, and return the last request; 409 after the timeout."""
        return _seen(self._find(id).wait(hits, timeout))

    def cap_versions(
        self,
        release: Annotated[str | None, "such as 2.8"] = None,
        apis: Annotated[Mapping[str, Cap], "by API: the newest version, oldest and newest, or null for none"] = {},
    ) -> None:
        """Offer the API versions of an older release, or fewer of single APIs; without any, all."""
        self.faults.cap_versions(release, **apis)

    def begin_chaos(self, seed: int, rate: float = 0.1) -> ChaosRow:
        """Begin a reproducible mix of faults that correct clients survive."""
        number = next(self._numbers)
        self._chaos[number] = self.faults.chaos(seed, rate).remove
        return {"id": number}

    def end_chaos(self, id: Annotated[int, "id of chaos"]) -> None:
        """End chaos."""
        end = self._chaos.pop(id, None)
        if end is None:
            raise NotFound(f"there is no chaos {id}")
        end()

    def reject_connections(self, broker: int | None = None) -> None:
        """Close new connections at once."""
        self.faults.reject_connections(broker)

    def accept_connections(self) -> None:
        """Accept connections again."""
        self.faults.accept_connections()

    def _find(self, number: int) -> Watch:
        try:
            return self.faults.find(number)
        except LookupError as error:
            raise NotFound(str(error)) from None


def _seen(seen: SeenRequest) -> RequestRow:
    return {
        "api": seen.api,
        "version": seen.version,
        "client_id": seen.client_id,
        "principal": seen.principal,
        "broker": seen.broker,
        "connection": seen.connection,
        "seconds": seen.seconds,
        "request": to_json(seen.request),
    }


def _of_broker(name: str) -> HttpRoute:
    def call(commands: Commands, **arguments: Any) -> None:
        getattr(commands.broker, name)(**arguments)

    return HttpRoute("POST", f"/api/broker/{name}", call, declared=getattr(Broker, name))


def _of_part(part: str, kind: type, name: str) -> HttpRoute:
    def call(commands: Commands, **arguments: Any) -> Any:
        result = getattr(getattr(commands.faults, part), name)(**arguments)
        return fault_row(result) if isinstance(result, Watch) else result

    return HttpRoute(
        "POST",
        f"/api/{part}/{name}",
        call,
        declared=getattr(kind, name),
        answer=_ANSWERS.get(name),
        operation=f"{part}_{name}",
    )


ROUTES: Final = (
    HttpRoute("GET", "/api/broker", Commands.addresses),
    *(_of_broker(name) for name in _BROKER),
    HttpRoute("GET", "/api/clock", Commands.time),
    HttpRoute("POST", "/api/clock/advance", Commands.advance),
    HttpRoute("GET", "/api/client_settings", Commands.client_settings),
    HttpRoute("GET", "/api/topics", Commands.topics),
    HttpRoute("POST", "/api/topics", Commands.create_topic),
    HttpRoute("DELETE", "/api/topics/{name}", Commands.delete_topic),
    HttpRoute("GET", "/api/topics/{topic}/records", Commands.records),
    HttpRoute("POST", "/api/topics/{topic}/records", Commands.produce),
    HttpRoute("GET", "/api/groups", Commands.groups),
    HttpRoute("DELETE", "/api/groups/{id}", Commands.delete_group),
    HttpRoute("GET", "/api/transactions", Commands.transactions),
    HttpRoute("GET", "/api/requests", Commands.requests),
    HttpRoute("DELETE", "/api/requests", Commands.forget_requests),
    HttpRoute("GET", "/api/faults", Commands.list_faults),
    HttpRoute("POST", "/api/faults", Commands.add_fault),
    HttpRoute("DELETE", "/api/faults", Commands.clear_faults),
    HttpRoute("POST", "/api/faults/check", Commands.check_faults),
    HttpRoute("GET", "/api/faults/{id}", Commands.fault),
    HttpRoute("DELETE", "/api/faults/{id}", Commands.remove_fault),
    HttpRoute("POST", "/api/faults/{id}/release", Commands.release_fault),
    HttpRoute("POST", "/api/faults/{id}/wait", Commands.wait_for_fault),
    HttpRoute("POST", "/api/watches", Commands.watch),
    HttpRoute("POST", "/api/versions", Commands.cap_versions),
    HttpRoute("POST", "/api/chaos", Commands.begin_chaos),
    HttpRoute("DELETE", "/api/chaos/{id}", Commands.end_chaos),
    HttpRoute("POST", "/api/connections/reject", Commands.reject_connections),
    HttpRoute("POST", "/api/connections/accept", Commands.accept_connections),
    *(_of_part(part, kind, name) for part, (kind, names) in _PARTS.items() for name in names),
)
