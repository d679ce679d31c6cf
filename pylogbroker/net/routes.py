"""Codecs and handlers by API and version.

A request begins `api_key:2 api_version:2 correlation_id:4 client_id_size:2 client_id`, followed by tagged fields in
flexible versions. It is parsed by hand, since every request pays for it. ControlledShutdown 0 has no client id.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pylogbroker.broker.fetch.session import CONSUMER, fetcher_of
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ProtocolViolation
from pylogbroker.features import on_first_use
from pylogbroker.net.latencies import Latency
from pylogbroker.wire import SUPPORTED, Chunk, request_codec, response_codec
from pylogbroker.wire.schema import fields_of

if TYPE_CHECKING:
    from pylogbroker.broker.apis import api_versions
    from pylogbroker.broker.requests.api import Api, Learn
    from pylogbroker.wire.messages.fetch import FetchRequest
else:
    api_versions = on_first_use("pylogbroker.broker.apis.api_versions")


_OTHER_APIS = {
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    55: "DescribeQuorum",
    64: "UnregisterBroker",
    68: "ConsumerGroupHeartbeat",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
"""Names for the log: APIs for clients that are not declared."""

_FETCH, _CONTROLLED_SHUTDOWN, _API_VERSIONS = 1, 7, 18
unpack_header_start = struct.Struct(">hhih").unpack_from
"""API key, version, correlation id, and size of the client id at the start of a frame."""

CLIENT_ID_AT = 8
HEADER_BYTES_MIN = 10

_EncodeIfShort = Callable[[int, Any, int], list[Chunk] | None]


def read_client_id(frame: memoryview, key: int, version: int, id_size: int) -> tuple[int, bytes, int]:
    """Return the size of the client id (-1: null), the client id, and its end position."""
    if not has_client_id(key, version):
        return -1, b"", CLIENT_ID_AT
    end = HEADER_BYTES_MIN + max(id_size, 0)
    if end > len(frame) or id_size < -1:
        raise ProtocolViolation(f"a client id of {id_size} bytes in a frame of {len(frame)}")
    return id_size, bytes(frame[HEADER_BYTES_MIN:end]), end


def has_client_id(key: int, version: int) -> bool:
    return key != _CONTROLLED_SHUTDOWN or version != 0


class NotOffered(ProtocolViolation):
    """API or version that is not offered; `api` names it in the log."""

    def __init__(self, api: str, reason: str) -> None:
        super().__init__(reason)
        self.api = api


@attrs.define(eq=False, repr=False)
class Route:
    """One version of an API on one listener; `requests`, `errors` and `latency` count since the start, for metrics.

    `errors` has error codes of requests as a whole. Topics count those of their partitions. With `latency_of`, the
    request decides where its duration counts.
    """

    name: str
    flexible: bool
    decode: Callable[[memoryview, int], tuple[Any, int]]
    handle: Callable[[Any, RequestContext, Any], Any]
    services: Any
    """Services that the handler declares, and no others."""
    response_type: type
    encode_if_short: _EncodeIfShort
    encode_in_steps: Callable[[int, Any], Coroutine[Any, Any, list[Chunk]]]
    is_read: bool = False
    decode_in_steps: Callable[[memoryview, int], Coroutine[Any, Any, tuple[Any, int]]] | None = None
    requests: int = attrs.field(default=0, init=False)
    errors: Counter[int] = attrs.field(factory=Counter, init=False)
    has_error_code: bool = False
    latency: Latency = attrs.field(factory=Latency)
    latency_of: Callable[[Any], Latency] | None = None
    learn: Learn | None = None


class Routes:
    """Routes by API key and version, made on first use. `missing` says what is wrong with requests of other APIs.

    Each route selects the services of its handler from `services`, those of the broker.
    """

    def __init__(self, apis: Sequence[Api], services: Any, missing: str = "is not offered") -> None:
        self._apis = {api.key: api for api in apis}
        self._services = services
        self._missing = missing
        self._routes: dict[tuple[int, int], Route] = {}
        self.latencies: defaultdict[str, Latency] = defaultdict(Latency)
        """By API, and apart for the two kinds of Fetch."""

    def __iter__(self) -> Iterator[tuple[int, Route]]:
        """Yield the version and route of what has been asked for."""
        return ((version, route) for (_, version), route in tuple(self._routes.items()))

    def find(self, key: int, version: int) -> Route:
        """Return a route; raise NotOffered if the version is not advertised.

        ApiVersions alone answers unknown versions, in version 0, so that clients can choose a known one.
        """
        return self._routes.get((key, version)) or self._make(key, version)

    def _make(self, key: int, version: int) -> Route:
        api = self._apis.get(key)
        if api is None:
            raise NotOffered(_shown(key), f"{_shown(key)} {self._missing}")
        if version in api.versions:
            route = self._routes[key, version] = _route(api, version, self._services, self.latencies)
            return route
        if key == _API_VERSIONS:
            # one for all of them, counted as the first: a peer may ask for 65,000
            return self._routes.setdefault(
                (key, api.versions.last + 1), _unsupported_api_versions(api.select_services(self._services))
            )
        raise NotOffered(
            api.name,
            f"{api.name} is not offered in version {version}, but in {api.versions.first} to {api.versions.last}",
        )


def _shown(key: int) -> str:
    declared = SUPPORTED.declared.get(key)
    name = _OTHER_APIS.get(key, "an API that is not known") if declared is None else declared.name
    return f"{name} ({key})"


def _route(api: Api, version: int, services: Any, latencies: Mapping[str, Latency]) -> Route:
    requests, responses = request_codec(api.key, version), response_codec(api.key, version)
    is_fetch = api.key == _FETCH
    return Route(
        api.name,
        api.versions.is_flexible(version),
        requests.decode_at,
        api.handle,
        api.select_services(services),
        api.response,
        responses.frame_if_short,
        responses.frame_in_steps,
        api.is_read,
        requests.decode_at_in_steps,
        has_error_code=_has_error_code(api.response, version),
        latency=latencies["FetchConsumer" if is_fetch else api.name],
        latency_of=_fetch_latency(latencies) if is_fetch else None,
        learn=api.learn,
    )


def _has_error_code(response: type, version: int) -> bool:
    return any(field.name == "error_code" and field.is_in(version) for field in fields_of(response))


def _fetch_latency(latencies: Mapping[str, Latency]) -> Callable[[FetchRequest], Latency]:
    of_consumers, of_followers = latencies["FetchConsumer"], latencies["FetchFollower"]
    return lambda request: of_followers if fetcher_of(request) > CONSUMER else of_consumers


def _unsupported_api_versions(services: Any) -> Route:
    """Do not decode the request."""
    responses = response_codec(_API_VERSIONS, 0)
    return Route(
        "ApiVersions",
        False,
        lambda frame, position: (None, position),
        api_versions.unsupported,
        services,
        SUPPORTED[_API_VERSIONS][1],
        responses.frame_if_short,
        responses.frame_in_steps,
    )
