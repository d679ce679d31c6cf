"""`pylogbroker token` on a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
        found = CliRunner().invoke(main, ["token", *arguments, "-b", "localhost:1"])
        self.assertEqual(found.exit_code, code, found.output)
        return found

    def setUp(self) -> None:
        super().setUp()

        @contextmanager
        def connected(_: object) -> Iterator[Any]:
            yield attrs.make_class("Admin", ["tokens"])(BlockingTokens(admin(self.node)))

        self.patch(Connection, "admin", connected)

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
