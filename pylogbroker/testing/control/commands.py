"""Commands of the control, by method and path: each calls the test broker, and returns what is answered as JSON."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from pylogbroker.java.text import is_digits
from pylogbroker.testing.broker import Broker
from pylogbroker.testing.control.json_messages import from_json, to_json
from pylogbroker.testing.faults import Fault, SeenRequest, Watch
from pylogbroker.testing.faults.names import api_key, api_name
from pylogbroker.wire import SUPPORTED

Body = Mapping[str, Any]
Command = Callable[..., Any]

_CLUSTER: Final = (
    *("move_leader", "remove_leader", "move_coordinator", "add_broker", "remove_broker"),
    *("lag_metadata", "update_metadata"),
)
_LOGS: Final = ("delete_records", "truncate", "retain", "compact", "fail_appends")
_GROUPS: Final = ("members", "rebalance", "fence")
_NETWORK: Final = ("shape", "stall", "heal", "reset")


class NotFound(LookupError):
    """No such fault, chaos or path."""


class Encoding(Enum):
    """Form of the bytes of records in JSON."""

    TEXT = "text"
    BASE64 = "base64"

    def encode(self, data: bytes | None) -> str | None:
        """Raise ValueError for bytes that are no text."""
        if data is None:
            return None
        return data.decode() if self is Encoding.TEXT else b64encode(data).decode()

    def decode(self, text: Any) -> bytes | None:
        """Raise ValueError for another value of JSON than a text or null."""
        if text is None:
            return None
        if not isinstance(text, str):
            raise ValueError(f"{text!r} is not accepted; expected a text, such as {str(text)!r}, or null")
        return text.encode() if self is Encoding.TEXT else b64decode(text, validate=True)


@attrs.define(eq=False)
class Commands:
    """Commands on one broker; any thread may run them. They raise ValueError or TypeError for wrong arguments."""

    _broker: Broker
    _listed: dict[int, Watch] = attrs.field(factory=dict, init=False)
    _chaos: dict[int, Callable[[], None]] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def table(self) -> dict[tuple[str, str], Command]:
        """Return the commands; they get the parts of the path in braces, then the fields of the body."""
        faults = self._broker.faults
        commands: dict[tuple[str, str], Command] = {
            ("GET", "/broker"): self._addresses,
            ("POST", "/broker/down"): self._broker.down,
            ("POST", "/broker/up"): self._broker.up,
            ("POST", "/broker/restart"): self._broker.restart,
            ("GET", "/clock"): lambda: {"seconds": self._broker.clock.time()},
            ("POST", "/clock/advance"): self._broker.clock.advance,
            ("GET", "/client_settings"): lambda user=None: self._broker.client_settings(user),
            ("GET", "/topics"): lambda: self._broker.topics,
            ("POST", "/topics"): self._create_topic,
            ("DELETE", "/topics/{name}"): self._broker.delete_topic,
            ("GET", "/topics/{name}/records"): self._records,
            ("POST", "/topics/{name}/records"): self._produce,
            ("GET", "/groups"): lambda: self._broker.groups,
            ("DELETE", "/groups/{name}"): self._broker.delete_group,
            ("GET", "/transactions"): lambda: self._broker.open_transactions,
            ("GET", "/requests"): self._requests,
            ("DELETE", "/requests"): self._broker.faults.requests.clear,
            ("GET", "/faults"): lambda: [_described(*each) for each in list(self._listed.items())],
            ("POST", "/faults"): self._add,
            ("DELETE", "/faults"): self._clear,
            ("POST", "/faults/check"): faults.check,
            ("POST", "/watches"): lambda **criteria: self._list(faults.watch(**criteria)),
            ("GET", "/faults/{id}"): lambda number: _described(number, self._find(number)),
            ("DELETE", "/faults/{id}"): self._remove,
            ("POST", "/faults/{id}/release"): self._release,
            ("POST", "/faults/{id}/wait"): self._wait,
            ("POST", "/versions"): lambda release=None, apis=None: faults.cap_versions(release, **_caps(apis or {})),
            ("POST", "/chaos"): self._begin_chaos,
            ("DELETE", "/chaos/{id}"): self._end_chaos,
            ("POST", "/connections/reject"): faults.reject_connections,
            ("POST", "/connections/accept"): faults.accept_connections,
        }
        for target, name, methods in (
            (faults.cluster, "cluster", _CLUSTER),
            (faults.logs, "logs", _LOGS),
            (faults.groups, "groups", _GROUPS),
            (faults.network, "network", _NETWORK),
        ):
            for method in methods:
                commands["POST", f"/{name}/{method}"] = self._listing(getattr(target, method))
        return commands

    def _listing(self, method: Command) -> Command:
        def call(**arguments: Any) -> Any:
            result = method(**arguments)
            return self._list(result) if isinstance(result, Watch) else result

        return call

    def _addresses(self) -> Any:
        broker = self._broker
        registry = {"schema_registry": broker.schema_registry.url} if broker.has_schema_registry else {}
        return {"bootstrap": broker.bootstrap, "ids": broker.ids, "listeners": broker.listeners, **registry}

    def _create_topic(
        self, name: str, partitions: int = 1, settings: Body | None = None, replication_factor: int = -1
    ) -> None:
        self._broker.create_topic(name, partitions, replication_factor=replication_factor, **(settings or {}))

    def _produce(
        self,
        topic: str,
        values: Sequence[str | None],
        key: str | None = None,
        headers: Sequence[tuple[str, str | None]] = (),
        encoding: str = "text",
        **options: Any,
    ) -> list[int]:
        decode = Encoding(encoding).decode
        return self._broker.produce(
            topic,
            *map(decode, values),
            key=decode(key),
            headers=[(name, decode(value)) for name, value in headers],
            **options,
        )

    def _records(self, topic: str, encoding: str = "text", **options: Any) -> list[Any]:
        encode = Encoding(encoding).encode
        return [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": each.timestamp,
                "key": encode(each.key),
                "value": encode(each.value),
                "headers": [[name, encode(value)] for name, value in each.headers],
            }
            for each in self._broker.records(topic, **options)
        ]

    def _requests(self, api: str | None = None) -> list[Any]:
        requests = self._broker.faults.requests
        return [_seen(seen) for seen in (requests if api is None else requests.of(api_name(api_key(api))))]

    def _add(self, **fields: Any) -> Any:
        answer = fields.get("answer")
        if answer is not None:
            fields["answer"] = from_json(SUPPORTED[api_key(fields.get("api", ""))][1], answer)
        return self._list(self._broker.faults.add(**fields))

    def _clear(self) -> None:
        self._listed.clear()
        self._chaos.clear()
        self._broker.faults.clear()

    def _begin_chaos(self, seed: int, rate: float = 0.1) -> Any:
        number = next(self._numbers)
        self._chaos[number] = self._broker.faults.chaos(seed, rate).remove
        return {"id": number}

    def _end_chaos(self, number: str) -> None:
        end = self._chaos.pop(int(number), None) if is_digits(number) else None
        if end is None:
            raise NotFound(f"there is no chaos {number}")
        end()

    def _list(self, watch: Watch) -> Any:
        number = next(self._numbers)
        self._listed[number] = watch
        return _described(number, watch)

    def _remove(self, number: str) -> None:
        watch = self._find(number)
        del self._listed[int(number)]
        watch.finish()

    def _release(self, number: str) -> None:
        fault = self._find(number)
        if not isinstance(fault, Fault):
            raise ValueError(f"{fault} holds no requests")
        fault.release()

    def _wait(self, number: str, hits: int = 1, timeout: float = 10.0) -> Any:
        return _seen(self._find(number).wait(hits, timeout))

    def _find(self, number: str | int) -> Watch:
        watch = self._listed.get(int(number)) if is_digits(str(number)) else None
        if watch is None:
            raise NotFound(f"there is no fault or watch {number}")
        return watch


def _described(number: str | int, watch: Watch) -> Any:
    return {"id": int(number), "description": str(watch), "hits": watch.hits}


def _caps(apis: Body) -> dict[str, Any]:
    return {api: tuple(cap) if isinstance(cap, list) else cap for api, cap in apis.items()}


def _seen(seen: SeenRequest) -> Any:
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
