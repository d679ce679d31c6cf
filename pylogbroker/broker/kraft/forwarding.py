"""Clients' requests that only the active controller can carry out, passed on to it in an Envelope (KIP-590).

    client --request--> handler --Envelope(request, principal, address)--> active controller
           <--response--        <--Envelope(response)--

The controller checks what the principal may do, and answers the client's request: the broker passes the answer on. A
broker's own principal needs CLUSTER_ACTION for that. Source: Kafka's ForwardingManager, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import ClientError, code_of, raise_for
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire import (
    Request,
    RequestHeader,
    Response,
    decode_response_header,
    encode_request_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.messages.describe_quorum import DescribeQuorumRequest
from pylogbroker.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from pylogbroker.wire.messages.unregister_broker import UnregisterBrokerRequest
from pylogbroker.wire.principal_data import encode_principal

if TYPE_CHECKING:
    from pylogbroker.broker.requests.context import RequestContext

FORWARDED: Final = frozenset(
    {
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "ElectLeaders",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "RenewDelegationToken",
        "UpdateFeatures",
    }
)
"""APIs that brokers pass on, as Kafka's do."""
_PURPOSE: Final = "forwarding"
_SECONDS: Final = 30.0
_BACKOFF: Final = Backoff(0.05, 1.0)


class _OtherController(ClientError):
    """The request reached a controller that does not lead."""


@attrs.define(eq=False, repr=False)
class Forwarding:
    _quorum: Quorum
    _runtime: Runtime
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    def close(self) -> None:
        self._pauses.close()

    def forwarded(self, api: Api) -> Api:
        """Return an API whose requests the active controller answers."""
        return api.forwarded_by(self._forward) if api.name in FORWARDED else api

    def only_forwarded(self) -> Iterator[Api]:
        """Yield APIs that only a member of such a cluster offers."""

        for request in (DescribeQuorumRequest, UnregisterBrokerRequest):
            yield Api.of(request, self._forward)

    async def _forward(self, services: object, context: RequestContext, request: Request) -> Response:
        return await self.send(context, request)

    async def send(self, context: RequestContext, request: Request) -> Response:
        """Return the controller's response; raise REQUEST_TIMED_OUT if no controller leads for long."""
        envelope = EnvelopeRequest(
            _framed(context, request), encode_principal(context.principal, context.by_token), _address(context)
        )

        async def attempt() -> bytes:
            answer: EnvelopeResponse = await self._quorum.send(_PURPOSE, envelope)
            if code_of(answer.error_code) is ErrorCode.NOT_CONTROLLER:
                raise _OtherController("another controller leads")
            raise_for(answer.error_code, f"the active controller answers {code_of(answer.error_code).name}")
            return answer.response_data or b""

        try:
            data = await retrying(
                attempt, self._pauses, _BACKOFF, _SECONDS, retriable=lambda error: isinstance(error, ClientError)
            )
        except ClientError as error:
            raise KafkaError(f"no controller answers: {error}", ErrorCode.REQUEST_TIMED_OUT) from error
        response: Response = _unframed(data, request.api_key, context.api_version)
        return response


def _framed(context: RequestContext, request: Request) -> bytes:
    header = RequestHeader(request.api_key, context.api_version, 0, context.client_id)
    return encode_request_header(header) + request_codec(request.api_key, context.api_version).encode(request)


def _unframed(data: bytes, api_key: int, version: int) -> Any:
    _, position = decode_response_header(memoryview(data), api_key, version)
    return response_codec(api_key, version).decode(data, position)


def _address(context: RequestContext) -> bytes:
    try:
        return ipaddress.ip_address(context.client_host.partition("%")[0]).packed
    except ValueError:
        return ipaddress.IPv4Address("127.0.0.1").packed
