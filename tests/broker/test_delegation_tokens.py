"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken, as Kafka 3.9's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pylogbroker.broker.apis import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from pylogbroker.broker.security.delegation import manager
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pylogbroker.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pylogbroker.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import START, NodeTests
from tests.broker.trees import now

HOUR = 3_600_000
DAY = 24 * HOUR
BEGAN = int(START * 1000)
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


class TokenTests(NodeTests):
    settings = {"delegation.token.secret.key": "the secret key"}

    def create(
        self,
        sender: str = ALICE,
        *renewers: str,
        owner: str = "",
        lifetime_ms: int = -1,
        version: int | None = None,
        kind: str = "User",
    ) -> Any:
        request = CreateDelegationTokenRequest(
            kind if owner else None,
            owner or None,
            [CreatableRenewers("User", name) for name in renewers],
            lifetime_ms,
        )
        if version is not None and version < 3:
            request.owner_principal_type = request.owner_principal_name = ""
        return self.node.ask(create_delegation_token.handle, request, version, principal=sender)

    def renew(self, sender: str, mac: bytes, period_ms: int = -1) -> tuple[int, int]:
        request = RenewDelegationTokenRequest(mac, period_ms)
        answer = self.node.ask(renew_delegation_token.handle, request, principal=sender)
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(self, sender: str, mac: bytes, period_ms: int = -1) -> tuple[int, int]:
        request = ExpireDelegationTokenRequest(mac, period_ms)
        answer = self.node.ask(expire_delegation_token.handle, request, principal=sender)
        return answer.error_code, answer.expiry_timestamp_ms

    def describe(self, sender: str, owners: Sequence[str] | None = None, version: int | None = None) -> Any:
        named = None if owners is None else [DescribeDelegationTokenOwner("User", name) for name in owners]
        request = DescribeDelegationTokenRequest(named)
        return self.node.ask(describe_delegation_token.handle, request, version, principal=sender)

    def owned(self, sender: str, owners: Sequence[str] | None = None) -> list[str]:
        answer = self.describe(sender, owners)
        assert answer.error_code == 0
        return sorted(each.principal_name for each in answer.tokens)


class DelegationTokenTests(TokenTests):
    def test_a_token(self) -> None:
        with logged_lines() as lines:
            made = self.create(ALICE, "bob", "carol")
        self.assertEqual((made.error_code, made.principal_type, made.principal_name), (0, "User", "alice"))
        self.assertEqual(made.token_requester_principal_name, "alice")
        times = made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms
        self.assertEqual(times, (BEGAN, BEGAN + DAY, BEGAN + 7 * DAY))
        self.assertEqual((len(made.token_id), len(made.hmac)), (22, 64))
        self.assertEqual(lines, [f"User:alice created the delegation token {made.token_id} of User:alice"])
        [found] = self.describe(ALICE).tokens
        self.assertEqual((found.token_id, bytes(found.hmac)), (made.token_id, bytes(made.hmac)))
        self.assertEqual([each.principal_name for each in found.renewers], ["bob", "carol"])
        self.assertEqual((found.issue_timestamp, found.expiry_timestamp, found.max_timestamp), times)
        self.restart()
        [again] = self.describe(ALICE).tokens
        self.assertEqual(again, found)

    def test_versions_without_the_requester(self) -> None:
        for version in range(4):
            made = self.create(version=version)
            self.assertEqual(made.token_requester_principal_name, "alice" if version == 3 else "")
            found = self.describe(ALICE, version=version).tokens
            self.assertEqual({each.token_requester_principal_name for each in found}, {"alice" if version == 3 else ""})

    def test_lifetimes(self) -> None:
        for asked, longest, expires in (
            (-1, 7 * DAY, DAY),
            (0, 7 * DAY, DAY),
            (HOUR, HOUR, HOUR),
            (2**62, 7 * DAY, DAY),
        ):
            made = self.create(lifetime_ms=asked)
            self.assertEqual(made.max_timestamp_ms, BEGAN + longest)
            self.assertEqual(made.expiry_timestamp_ms, BEGAN + expires)

    def test_renewing(self) -> None:
        mac = bytes(self.create(ALICE, "bob", owner="carol").hmac)
        self.node.clock.advance(60)
        for sender, period, left in (
            (CAROL, -1, DAY),
            (BOB, HOUR, HOUR),
            (BOB, 2**62, 7 * DAY - 60_000),
            (CAROL, 5, 5),
        ):
            self.assertEqual(self.renew(sender, mac, period), (0, BEGAN + 60_000 + left))
        self.assertEqual(self.renew(ALICE, mac), (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1))
        self.assertEqual(self.renew(CAROL, b"?"), (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1))
        self.node.clock.advance(1)
        self.assertEqual(self.renew(CAROL, mac), (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1))

    def test_expiring(self) -> None:
        mac = bytes(self.create(ALICE, "bob").hmac)
        self.assertEqual(self.expire(CAROL, mac), (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1))
        self.assertEqual(self.expire(BOB, mac, HOUR), (0, BEGAN + HOUR))
        self.assertEqual(self.describe(ALICE).tokens[0].expiry_timestamp, BEGAN + HOUR)
        self.assertEqual(self.expire(ALICE, mac), (0, BEGAN))
        self.assertEqual(self.owned(ALICE), [])
        self.assertEqual(self.expire(ALICE, mac), (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1))

    def test_an_expired_token_can_still_be_deleted(self) -> None:
        mac = bytes(self.create(ALICE).hmac)
        self.expire(ALICE, mac, 0)
        self.node.clock.advance(1)
        self.assertEqual(self.expire(ALICE, mac, HOUR), (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1))
        self.assertEqual(self.expire(ALICE, mac), (0, BEGAN + 1000))

    def test_expired_tokens_are_removed(self) -> None:
        self.create(ALICE, lifetime_ms=HOUR // 2)
        stays = self.create(ALICE)
        self.node.clock.advance(HOUR / 2000)
        with logged_lines() as lines:
            self.node.clock.advance(HOUR / 2000)
        self.assertIn("it has expired", lines[0])
        self.assertEqual([each.token_id for each in self.describe(ALICE).tokens], [stays.token_id])
        self.assertEqual(now(self.node.tree.children("/delegation_token/tokens")), [stays.token_id])

    def test_only_the_controller_removes_expired_tokens(self) -> None:
        def not_controller(_: object) -> None:
            raise KafkaError("another", ErrorCode.NOT_CONTROLLER)

        self.patch(type(self.node.broker.controller), "check_is_controller", not_controller)
        self.create(ALICE, lifetime_ms=1)
        with logged_lines() as lines:
            self.node.clock.advance(HOUR / 1000)
        self.assertEqual((self.owned(ALICE), lines), (["alice"], []))

    def test_describing(self) -> None:
        self.create(ALICE, "carol", owner="bob")
        self.create(CAROL)
        self.assertEqual(self.owned(ALICE), ["bob", "carol"])  # without an authorizer everybody may see all
        self.assertEqual(self.owned(ALICE, []), [])
        self.assertEqual(self.owned(ALICE, ["dave"]), [])
        for owner, found in (("alice", ["bob"]), ("bob", ["bob"]), ("carol", ["bob", "carol"])):
            self.assertEqual(self.owned(ALICE, [owner]), found)

    def test_principals_that_are_no_users(self) -> None:
        request = CreateDelegationTokenRequest(None, None, [CreatableRenewers("Group", "g")], -1)
        answer = self.node.ask(create_delegation_token.handle, request, principal=ALICE)
        self.assertEqual((answer.error_code, answer.token_id), (ErrorCode.INVALID_PRINCIPAL_TYPE, ""))
        self.assertEqual(self.create(owner="bob", kind="Group").error_code, ErrorCode.INVALID_PRINCIPAL_TYPE)

    def test_limits(self) -> None:
        self.assertEqual(self.create(ALICE, *["bob"] * 100).error_code, 0)
        self.assertEqual(self.create(ALICE, *["bob"] * 101).error_code, ErrorCode.POLICY_VIOLATION)
        self.assertEqual(self.create(ALICE, "n" * 1001).error_code, ErrorCode.POLICY_VIOLATION)
        self.patch(manager, "TOKENS_OF_REQUESTER_MAX", 2)
        self.assertEqual(self.create(ALICE, owner="bob").error_code, 0)
        self.assertEqual(self.create(ALICE).error_code, ErrorCode.POLICY_VIOLATION)
        self.assertEqual(self.create(BOB).error_code, 0)

    def test_clients_without_identity_are_rejected(self) -> None:
        mac = bytes(self.create(ALICE).hmac)
        nobody, code = "User:ANONYMOUS", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        made = self.create(nobody)
        self.assertEqual((made.error_code, made.principal_name, made.issue_timestamp_ms), (code, "ANONYMOUS", -1))
        self.assertEqual(self.renew(nobody, mac), (code, -1))
        self.assertEqual(self.expire(nobody, mac), (code, -1))
        self.assertEqual((self.describe(nobody).error_code, self.owned(ALICE)), (code, ["alice"]))


class DisabledTokenTests(TokenTests):
    settings = {"delegation.token.secret.key": ""}

    def test_without_a_secret_key(self) -> None:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        self.assertEqual(self.create().error_code, code)
        self.assertEqual((self.renew(ALICE, b"?"), self.expire(ALICE, b"?")), ((code, -1), (code, -1)))
        self.assertEqual(self.describe(ALICE, []).error_code, code)
        self.assertIsNone(now(self.node.tree.exists("/delegation_token")))


class OlderNameTests(TokenTests):
    settings = {"delegation.token.master.key": "the secret key"}

    def test_the_key_by_its_older_name(self) -> None:
        self.assertEqual(self.create().error_code, 0)


class AuthorizedTokenTests(TokenTests):
    settings = {
        "delegation.token.secret.key": "the secret key",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }

    def allow(self, principal: str, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        entry = AccessControlEntry(principal, "*", operation, AclPermission.ALLOW)
        assert self.node.broker.authorizer is not None
        now(self.node.broker.authorizer.acls.add(ResourcePattern(kind, name), frozenset({entry}), "User:admin"))

    def test_tokens_of_others_need_an_acl(self) -> None:
        self.assertEqual(self.create(ALICE).error_code, 0)
        made = self.create(ALICE, owner="bob")
        self.assertEqual(made.error_code, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        self.assertEqual((made.principal_name, made.token_requester_principal_name), ("bob", "alice"))
        self.allow(ALICE, AclOperation.CREATE_TOKENS, AclResourceType.USER, BOB)
        self.assertEqual(self.create(ALICE, owner="bob").error_code, 0)
        self.assertEqual(self.create(ALICE, owner="carol").error_code, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)

    def test_acls_show_tokens_of_other_users(self) -> None:
        made = self.create(ALICE)
        self.create(CAROL)
        self.assertEqual(self.owned(BOB), [])
        self.allow(BOB, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, made.token_id)
        self.assertEqual(self.owned(BOB), ["alice"])
        self.allow(BOB, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, CAROL)
        self.assertEqual(self.owned(BOB), ["alice", "carol"])
        self.assertEqual(self.owned(BOB, ["carol"]), ["carol"])
        self.assertEqual(self.renew(BOB, bytes(made.hmac))[0], ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
