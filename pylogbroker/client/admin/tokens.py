"""Delegation tokens (KIP-48): create, describe, renew, expire.

A client connects by SCRAM as the owner of a token, with the token's id as its user, the token's password, and the
option tokenauth="true" in `sasl.jaas.config`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken
from pylogbroker.security.principals import parts
from pylogbroker.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pylogbroker.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from pylogbroker.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_DEFAULT: Final = -1


@attrs.frozen(eq=False, repr=False)
class TokenAdmin:
    """Times are milliseconds; principals are written as `User:name`."""

    _router: Router

    @deferred
    async def create(
        self, owner: str | None = None, renewers: Iterable[str] = (), lifetime_ms: int | None = None
    ) -> IssuedToken:
        """Create a token of the caller, or of another owner, which needs Kafka 3.3.

        If a connection is lost meanwhile, another attempt makes another token.
        """
        kind, name = ("", "") if owner is None else _principal("owner", owner)
        principals = tuple(dict.fromkeys(renewers))
        request = CreateDelegationTokenRequest(
            kind,
            name,
            [CreatableRenewers(*_principal("renewers", renewer)) for renewer in principals],
            _period(lifetime_ms),
        )
        response: CreateDelegationTokenResponse = await self._router.anywhere(request)
        raise_for(response.error_code)
        principal = f"{response.principal_type}:{response.principal_name}"
        requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        token = DelegationToken(
            response.token_id,
            principal,
            principal if requester == ":" else requester,
            principals,
            response.issue_timestamp_ms,
            response.max_timestamp_ms,
            response.expiry_timestamp_ms,
        )
        return IssuedToken(token, bytes(response.hmac))

    @deferred
    async def describe(self, owners: Iterable[str] | None = None) -> tuple[IssuedToken, ...]:
        """Return the tokens of these owners, by default of all, that the caller may see."""
        principals = owners if owners is None else [_principal("owners", owner) for owner in dict.fromkeys(owners)]
        named = None if principals is None else [DescribeDelegationTokenOwner(*principal) for principal in principals]
        response: DescribeDelegationTokenResponse = await self._router.anywhere(DescribeDelegationTokenRequest(named))
        raise_for(response.error_code)
        return tuple(_described(token) for token in response.tokens)

    @deferred
    async def renew(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Let a token expire after a period from now, by default the broker's; return the time."""
        request = RenewDelegationTokenRequest(hmac, _period(period_ms))
        response: RenewDelegationTokenResponse = await self._router.anywhere(request)
        raise_for(response.error_code)
        return response.expiry_timestamp_ms

    @deferred
    async def expire(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Let a token expire after a period from now, or delete it; return the time."""
        request = ExpireDelegationTokenRequest(hmac, _period(period_ms))
        response: ExpireDelegationTokenResponse = await self._router.anywhere(request)
        raise_for(response.error_code)
        return response.expiry_timestamp_ms


def _period(ms: int | None) -> int:
    return _DEFAULT if ms is None else arguments.offset("period_ms", ms)


def _principal(argument: str, principal: str) -> tuple[str, str]:
    kind, name = parts(arguments.name(argument, principal))
    if not (kind and name):
        raise arguments.invalid(argument, principal, "User:name")
    return kind, name


def _described(row: DescribedDelegationToken) -> IssuedToken:
    owner = f"{row.principal_type}:{row.principal_name}"
    requester = f"{row.token_requester_principal_type}:{row.token_requester_principal_name}"
    token = DelegationToken(
        row.token_id,
        owner,
        owner if requester == ":" else requester,
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in row.renewers),
        row.issue_timestamp,
        row.max_timestamp,
        row.expiry_timestamp,
    )
    return IssuedToken(token, bytes(row.hmac))
