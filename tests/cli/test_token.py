"""`pylogbroker token` on a broker in memory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import attrs
from click.testing import CliRunner, Result

from pylogbroker.cli import main
from pylogbroker.cli.cluster_options import Connection
from pylogbroker.client.admin.tokens import TokenAdmin
from tests.broker.trees import now
from tests.client.test_admin_tokens import ALICE, BEGAN, BOB, HOUR, WithTokens, admin


@attrs.frozen
class BlockingTokens:
    tokens: TokenAdmin

    def __getattr__(self, verb: str) -> Any:
        return lambda *arguments: now(getattr(self.tokens, verb)(*arguments))


class TokenCommandTests(WithTokens):
    def run_command(self, *arguments: str, code: int = 0) -> Result:
        given = () if "--" in arguments else ("-b", "localhost:1")
        found = CliRunner().invoke(main, ["token", *arguments, *given])
        self.assertEqual(found.exit_code, code, found.output)
        return found

    def setUp(self) -> None:
        super().setUp()

        @contextmanager
        def connected(_: object) -> Iterator[Any]:
            yield attrs.make_class("Admin", ["tokens"])(BlockingTokens(admin(self.node)))

        self.patch(Connection, "admin", connected)

    def test_ids_that_begin_with_a_dash(self) -> None:
        """This broker makes none, but others' have them."""
        error = self.run_command("renew", "-2Xy", code=2).stderr
        self.assertIn("An argument that begins with '-' comes after --: main token renew -- -2", error)
        error = self.run_command("renew", "--period-ms", "5", "-b", "localhost:1", "--", "-2Xy", code=1).output
        self.assertIn("there is no token -2Xy", error)
        self.assertNotIn("after --", self.run_command("list", "-2Xy", code=2).stderr)

    def test_no_token_has_an_id_that_begins_with_a_dash(self) -> None:
        ids = iter([UUID(int=62 << 122), UUID(int=5 << 122)])
        self.patch(uuid, "uuid4", lambda: next(ids))
        [row] = json.loads(self.run_command("create", "--format", "json").stdout)
        self.assertEqual(row["token"], "F" + 21 * "A")

    def test_the_command(self) -> None:
        made = json.loads(self.run_command("create", "--renewer", BOB, "--format", "json").stdout)
        [row] = made
        self.assertEqual((row["owner"], row["requester"], row["renewers"]), (ALICE, ALICE, [BOB]))
        self.assertEqual(row["max_ms"], BEGAN + 7 * 24 * HOUR)
        self.assertEqual(json.loads(self.run_command("list", "--format", "json").stdout), made)
        self.assertIn("2023-11-15T22:13:20+00:00", self.run_command("list").stdout)
        renewed = self.run_command("renew", row["token"], "--period-ms", str(HOUR)).stdout
        self.assertEqual(renewed, f"Token {row['token']} expires at 2023-11-14T23:13:20+00:00.\n")
        self.assertIn("Delete token", self.run_command("expire", row["token"], code=1).stderr)
        expiring = self.run_command("expire", row["token"], "--period-ms", "1000", "--yes")
        self.assertIn("expires at", expiring.stdout)
        self.assertEqual(
            self.run_command("expire", row["token"], "--yes").stdout, f"Token {row['token']} is deleted.\n"
        )
        self.assertIn("there is no token", self.run_command("renew", row["token"], code=1).output)
        self.assertEqual(json.loads(self.run_command("list", "--owner", BOB, "--format", "json").stdout), [])
