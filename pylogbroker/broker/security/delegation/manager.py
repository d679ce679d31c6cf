"""Delegation tokens of this broker, by the rules of Kafka 3.9 in ZooKeeper mode (KIP-48, KIP-373).

Any broker creates and changes tokens; the controller removes those that have expired. Kafka accepts them until then,
this broker does not. Kafka has no limits; here they keep a user from filling the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.broker.security.delegation.store import TokenStore
from pylogbroker.broker.services import Controller
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import ITree
from pylogbroker.metadata.zk_schema import id_text, new_id
from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken, TokenSecret, TokenTable
from pylogbroker.security.sasl.scram import TokenLogin

log = Logger()
TOKENS_OF_REQUESTER_MAX: Final = 10_000


@attrs.define(eq=False, repr=False)
class TokenManager:
    _config: BrokerConfig
    _runtime: Runtime
    _controller: Controller
    _key: TokenSecret = attrs.field(repr=False)
    _store: TokenStore
    _removal: PeriodicCall | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls, config: BrokerConfig, runtime: Runtime, tree: ITree, notifies: bool, controller: Controller, secret: str
    ) -> TokenManager:
        key = TokenSecret(secret.encode())
        return cls(config, runtime, controller, key, TokenStore(tree, runtime, notifies, TokenTable(key)))

    async def open(self) -> None:
        """Read all tokens; raise CoordinationError."""
        await self._store.open()
        self._removal = PeriodicCall(self._runtime.clock, self._remove_expired)
        self._removal.start(self._config.delegation_token_expiry_check_interval_ms / 1000)

    def close(self) -> None:
        self._store.close()
        if self._removal is not None and self._removal.running:
            self._removal.stop()

    def login(self, token_id: str) -> TokenLogin:
        """Return what SCRAM knows of a token; nothing of one that has expired. Any thread may ask."""
        token = self._store.in_force.get(token_id)
        if token is None or not token.is_valid(self._runtime.now_ms()):
            return TokenLogin(self._key.users(None), "", None)
        return TokenLogin(self._key.users(token_id), token.owner_name, token.expires_ms)

    async def create(self, owner: str, requester: str, renewers: Sequence[str], lifetime_ms: int) -> IssuedToken:
        """Create a token; raise KafkaError. A lifetime that is not positive stands for the longest."""
        if self._store.in_force.count_of(requester) >= TOKENS_OF_REQUESTER_MAX:
            raise KafkaError(
                f"{requester} has {TOKENS_OF_REQUESTER_MAX} tokens; expire some", ErrorCode.POLICY_VIOLATION
            )
        now_ms, longest = self._runtime.now_ms(), self._config.delegation_token_max_lifetime_ms
        max_ms = now_ms + (min(lifetime_ms, longest) if lifetime_ms > 0 else longest)
        expires_ms = min(max_ms, now_ms + self._renewal_ms)
        token = DelegationToken(id_text(new_id()), owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)
        await self._store.change(token.token_id, lambda _: token)
        log.info(
            "{requester} created the delegation token {id} of {owner}",
            requester=requester,
            id=token.token_id,
            owner=owner,
        )
        return self._key.issued(token)

    async def renew(self, principal: str, mac: bytes, period_ms: int) -> int:
        """Postpone the expiry of the token with an HMAC, and return it; raise KafkaError.

        A negative period stands for `delegation.token.expiry.time.ms`.
        """
        return await self._set_expiry(principal, mac, self._renewal_ms if period_ms < 0 else period_ms, "renewed")

    async def expire(self, principal: str, mac: bytes, period_ms: int) -> int:
        """Set the expiry of the token with an HMAC, and return it; raise KafkaError.

        A negative period deletes the token.
        """
        if period_ms >= 0:
            return await self._set_expiry(principal, mac, period_ms, "changed the expiry of")

        def deleted(token: DelegationToken | None) -> None:
            _check_renewer(token, principal)

        await self._change(mac, deleted)
        log.info("{principal} deleted a delegation token", principal=principal)
        return self._runtime.now_ms()

    async def select(self, is_wanted: Callable[[DelegationToken], bool]) -> list[IssuedToken]:
        """Return the tokens that are wanted; raise KafkaError."""
        tokens = self._store.in_force.tokens
        return [self._key.issued(token) async for token in self._runtime.slices.over(tokens) if is_wanted(token)]

    async def _set_expiry(self, principal: str, mac: bytes, period_ms: int, verb: str) -> int:
        now_ms = self._runtime.now_ms()

        def changed(before: DelegationToken | None) -> DelegationToken:
            token = _check_renewer(before, principal)
            if not token.is_valid(now_ms):
                raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return attrs.evolve(token, expires_ms=min(token.max_ms, now_ms + period_ms))

        token = await self._change(mac, changed)
        assert token is not None
        log.info("{principal} {verb} the delegation token {id}", principal=principal, verb=verb, id=token.token_id)
        return token.expires_ms

    async def _change(
        self, mac: bytes, change: Callable[[DelegationToken | None], DelegationToken | None]
    ) -> DelegationToken | None:
        token_id = self._store.in_force.id_of(mac)
        if token_id is None:
            raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return await self._store.change(token_id, change)

    @property
    def _renewal_ms(self) -> int:
        return self._config.delegation_token_expiry_time_ms

    def _remove_expired(self) -> Deferred[None]:
        return ensureDeferred(self._remove_each_expired()).addErrback(
            lambda failure: log.failure("delegation tokens that have expired cannot be removed now", failure)
        )

    async def _remove_each_expired(self) -> None:
        try:
            self._controller.check_is_controller()
            now_ms = self._runtime.now_ms()
            async for token in self._runtime.slices.over(self._store.in_force.tokens):
                if not token.is_valid(now_ms):
                    await self._store.change(
                        token.token_id, lambda stored: stored if stored and stored.is_valid(now_ms) else None
                    )
                    log.info("removed the delegation token {id}: it has expired", id=token.token_id)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER and self._runtime.may_log("expired delegation tokens"):
                log.warn("delegation tokens that have expired cannot be removed now: {why}", why=error)


def _check_renewer(token: DelegationToken | None, principal: str) -> DelegationToken:
    """Return the token if a principal may change it; raise KafkaError."""
    if token is None:
        raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if not token.may_renew(principal):
        raise KafkaError(code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token
