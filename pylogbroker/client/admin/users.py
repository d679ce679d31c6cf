"""Users of SCRAM: describe, set passwords, delete."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.errors import KafkaError
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.sasl.users import ITERATIONS_MIN, salt_password
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pylogbroker.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_NUMBERS: Final[Mapping[str, int]] = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
_NAMES: Final = {number: name for name, number in _NUMBERS.items()}
_SALT_BYTES: Final = 24

#: Iterations by mechanism.
Credentials = dict[str, int]


@attrs.frozen(eq=False, repr=False)
class UserAdmin:
    _router: Router

    @deferred
    async def describe(self, names: Iterable[str] | None = None) -> dict[str, Credentials]:
        """Return users' mechanisms with their iterations; by default of all users."""
        users = None if names is None else [UserName(name) for name in dict.fromkeys(names)]
        if users == []:
            return {}
        response: DescribeUserScramCredentialsResponse = await self._router.anywhere(
            DescribeUserScramCredentialsRequest(users)
        )
        raise_for(response.error_code, response.error_message)
        rows = {row.user: row for row in response.results}
        if users is not None:
            rows = rows_by_key(response, "results", "the broker", (user.name for user in users), attrgetter("user"))
        for user, row in rows.items():
            if row.error_code:
                error = outcome(f"user {user}", row.error_code, row.error_message, None)
                assert error is not None
                raise error
        return {
            user: {_NAMES.get(info.mechanism, "unknown"): info.iterations for info in row.credential_infos}
            for user, row in rows.items()
        }

    @deferred
    async def set_password(
        self,
        name: str,
        password: str,
        mechanisms: Iterable[str] = (SCRAM_SHA_256, SCRAM_SHA_512),
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Add a user, or change the password of one. The broker gets a salted hash, not the password."""
        arguments.name("name", name)
        arguments.text("password", password)
        for mechanism, number in [(scram, _number(scram)) for scram in dict.fromkeys(mechanisms)]:
            salt = os.urandom(_SALT_BYTES)
            salted = salt_password(mechanism, password, salt, iterations)
            row = ScramCredentialUpsertion(name, number, iterations, salt, salted)
            await self._alter(name, AlterUserScramCredentialsRequest([], [row]))

    @deferred
    async def delete(self, name: str, mechanisms: Iterable[str] | None = None) -> None:
        """Delete a user's credentials of these mechanisms, by default of all; without any there is no such user."""
        arguments.name("name", name)
        if mechanisms is None:
            mechanisms = (await self.describe([name]))[name]
        for number in [_number(mechanism) for mechanism in mechanisms]:
            await self._alter(name, AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, number)], []))

    async def _alter(self, name: str, request: AlterUserScramCredentialsRequest) -> None:
        """Send a change of one credential: Kafka rejects two of a user in one request."""

        def read(response: AlterUserScramCredentialsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.results:
                yield result.user, outcome(f"user {result.user}", result.error_code, result.error_message, None)

        await self._router.ask(self._router.controller(), [name], lambda _: request, read)


def _number(mechanism: str) -> int:
    number = _NUMBERS.get(mechanism)
    if number is None:
        raise arguments.invalid("mechanisms", mechanism, " or ".join(_NUMBERS))
    return number
