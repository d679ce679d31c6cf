"""DescribeUserScramCredentials and AlterUserScramCredentials: answers of Kafka 3.9, log lines, limits."""

from __future__ import annotations

import hashlib
from typing import Any

from pylogbroker.broker.apis import alter_user_scram_credentials, describe_user_scram_credentials
from pylogbroker.broker.security.scram_requests import USERS_MAX
from pylogbroker.config.mechanisms import SCRAM_SHA_256
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pylogbroker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NodeTests
from tests.broker.trees import now

SHA_256, SHA_512 = 1, 2
SALT = b"NaCl"
TWICE = "A user credential cannot be altered twice in the same request"
MISSING = "Attempt to delete a user credential that does not exist"


def new(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    hash_name = "sha512" if mechanism == SHA_512 else "sha256"
    salted = hashlib.pbkdf2_hmac(hash_name, b"secret", SALT, iterations) if iterations > 0 else b"x"
    return ScramCredentialUpsertion(name, mechanism, iterations, SALT, salted)


class ScramCredentialTests(NodeTests):
    settings = {"listeners": "PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9093"}

    def alter(self, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, tuple[int, str | None]]:
        deletions = [each for each in changes if isinstance(each, ScramCredentialDeletion)]
        upsertions = [each for each in changes if isinstance(each, ScramCredentialUpsertion)]
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        results = self.node.ask(alter_user_scram_credentials.handle, request, principal="User:admin").results
        found = {each.user: (each.error_code, each.error_message) for each in results}
        self.assertEqual(len(found), len(results))
        return found

    def describe(self, *names: str) -> list[Any]:
        request = DescribeUserScramCredentialsRequest([UserName(name) for name in names] or None)
        answer = self.node.ask(describe_user_scram_credentials.handle, request)
        self.assertEqual((answer.error_code, answer.error_message), (0, None))
        return [
            (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
            for each in answer.results
        ]

    def test_setting_describing_and_deleting(self) -> None:
        self.assertEqual(self.describe(), [])
        found = self.alter(new("bob"), new("alice", SHA_512, 8192), new("alice", SHA_256))
        self.assertEqual(found, {"bob": (0, None), "alice": (0, None)})
        alice, bob = ("alice", 0, [(SHA_256, 4096), (SHA_512, 8192)]), ("bob", 0, [(SHA_256, 4096)])
        self.assertEqual(self.describe(), [alice, bob])
        self.assertEqual(self.describe("bob", "alice"), [bob, alice])
        self.assertEqual(self.alter(ScramCredentialDeletion("alice", SHA_256), new("bob", SHA_512))["alice"], (0, None))
        self.assertEqual(
            self.describe(),
            [("alice", 0, [(SHA_512, 8192)]), ("bob", 0, [(SHA_256, 4096), (SHA_512, 4096)])],
        )
        self.assertEqual(self.alter(ScramCredentialDeletion("alice", SHA_512)), {"alice": (0, None)})
        self.assertEqual([name for name, _, _ in self.describe()], ["bob"])

    def test_the_password_is_the_right_one(self) -> None:
        now(self.node.broker.scram.open())
        self.alter(new("alice"))
        keys = self.node.broker.scram.in_force.get(SCRAM_SHA_256, "alice")
        assert keys is not None
        self.assertTrue(keys.is_of("secret"))

    def test_each_user_fails_alone(self) -> None:
        self.alter(new("bob"))
        too_few, too_many = new("few", iterations=4095), new("many", iterations=4096)
        too_many.iterations = 16385
        for changes, name, code, text in (
            ((new(""),), "", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
            ((ScramCredentialDeletion("", 1),), "", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
            ((too_few,), "few", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
            ((too_many,), "many", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
            ((new("x", 0),), "x", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            ((new("x", 3),), "x", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            ((ScramCredentialDeletion("x", 3),), "x", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            ((new("bob"), new("bob")), "bob", ErrorCode.DUPLICATE_RESOURCE, TWICE),
            ((new("bob"), ScramCredentialDeletion("bob", 1)), "bob", ErrorCode.DUPLICATE_RESOURCE, TWICE),
            ((new("bob", 2), ScramCredentialDeletion("nobody", 1)), "nobody", ErrorCode.RESOURCE_NOT_FOUND, MISSING),
            ((new("bob", 2, 8192), ScramCredentialDeletion("bob", 2)), "bob", ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ):
            found = self.alter(*changes, new("other"))
            self.assertEqual(found.pop("other"), (0, None))
            self.assertEqual(found[name], (code, text))
        self.assertEqual([name for name, _, _ in self.describe()], ["bob", "other"])

    def test_unacceptable_credentials(self) -> None:
        unsalted, large = new("a"), new("b")
        unsalted.salt, large.salt = b"", b"x" * 1025
        for change in (unsalted, large, new("."), new(".."), new("n" * 1001)):
            [(code, _)] = self.alter(change).values()
            self.assertEqual(code, ErrorCode.UNACCEPTABLE_CREDENTIAL)
        self.assertEqual(self.alter(new("a/b")), {"a/b": (0, None)})
        self.assertEqual(self.describe("a/b"), [("a/b", 0, [(SHA_256, 4096)])])

    def test_too_many_users(self) -> None:
        deletions = [ScramCredentialDeletion(str(number), 1) for number in range(USERS_MAX + 1)]
        self.assertEqual({code for code, _ in self.alter(*deletions).values()}, {ErrorCode.POLICY_VIOLATION})
        self.assertEqual({code for code, _ in self.alter(*deletions[1:]).values()}, {ErrorCode.RESOURCE_NOT_FOUND})
        request = DescribeUserScramCredentialsRequest([UserName(each.name) for each in deletions])
        answer = self.node.ask(describe_user_scram_credentials.handle, request)
        self.assertEqual(answer.error_code, ErrorCode.POLICY_VIOLATION)

    def test_describing_unknown_and_repeated_users(self) -> None:
        self.alter(new("bob"))
        self.assertEqual(
            self.describe("nobody", "bob", "", "twice", "twice"),
            [
                ("nobody", ErrorCode.RESOURCE_NOT_FOUND, []),
                ("bob", 0, [(SHA_256, 4096)]),
                ("", ErrorCode.RESOURCE_NOT_FOUND, []),
                ("twice", ErrorCode.DUPLICATE_RESOURCE, []),
            ],
        )

    def test_a_change_is_logged_without_its_secret(self) -> None:
        with logged_lines() as lines:
            self.alter(new("alice"), ScramCredentialDeletion("nobody", 1))
        self.assertEqual(lines, ["User:admin changed the credentials of User:alice: SCRAM-SHA-256 set"])

    def test_only_the_controller_makes_changes(self) -> None:
        def not_controller() -> None:
            raise KafkaError("another", ErrorCode.NOT_CONTROLLER)

        self.patch(type(self.node.broker.controller), "check_is_controller", lambda self: not_controller())
        found = self.alter(new("alice"), ScramCredentialDeletion("bob", 1))
        self.assertEqual({name: code for name, (code, _) in found.items()}, dict.fromkeys(("alice", "bob"), 41))
        self.assertEqual(self.describe(), [])

    def test_secrets_are_not_shown(self) -> None:
        self.assertNotIn(repr(new("alice").salted_password), repr(new("alice")))


class UsersWithoutSaslTests(NodeTests):
    def test_a_user_is_set_before_a_listener_has_sasl(self) -> None:
        request = AlterUserScramCredentialsRequest([], [new("alice")])
        [result] = self.node.ask(alter_user_scram_credentials.handle, request).results
        self.assertEqual((result.error_code, result.error_message), (0, None))
        self.assertIsNone(self.node.broker.sasl)
