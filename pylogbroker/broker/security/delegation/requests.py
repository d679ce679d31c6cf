"""Requests for delegation tokens: principals in messages, and which connections may send them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import DelegationTokens, HasTokens
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.principals import ANONYMOUS, parts

_RENEWERS_MAX: Final = 100
"""Kafka has no such limit; it keeps the nodes of tokens small."""
_NAME_CHARACTERS_MAX: Final = 1000


class NamesPrincipal(Protocol):
    principal_type: str
    principal_name: str


def principal_of(named: NamesPrincipal) -> str:
    return f"{named.principal_type}:{named.principal_name}"


def enabled_tokens(services: HasTokens) -> DelegationTokens:
    """Return the tokens; raise DELEGATION_TOKEN_AUTH_DISABLED without a secret key."""
    if services.tokens is None:
        raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return services.tokens


def check_connection(context: RequestContext) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients without identity, and those that connect by a token."""
    if context.by_token or context.principal == ANONYMOUS:
        raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def principals_of(renewers: Sequence[NamesPrincipal]) -> list[str]:
    """Return the renewers of a token; raise POLICY_VIOLATION for too many."""
    if len(renewers) > _RENEWERS_MAX:
        raise KafkaError(f"A token cannot have more than {_RENEWERS_MAX} renewers", ErrorCode.POLICY_VIOLATION)
    return [principal_of(renewer) for renewer in renewers]


def check_users(principals: Iterable[str]) -> None:
    """Raise INVALID_PRINCIPAL_TYPE for principals that are no users, POLICY_VIOLATION for names that are too long."""
    for principal in principals:
        kind, name = parts(principal)
        if kind != "User":
            raise KafkaError(code=ErrorCode.INVALID_PRINCIPAL_TYPE)
        if not 1 <= len(name) <= _NAME_CHARACTERS_MAX:
            text = f"Names of users must have 1 to {_NAME_CHARACTERS_MAX} characters"
            raise KafkaError(text, ErrorCode.POLICY_VIOLATION)
