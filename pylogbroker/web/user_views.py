"""Users of SCRAM in the coordination tree: list, set a password, delete. Neither passwords nor keys are shown."""

from __future__ import annotations

import os
from typing import Annotated, Final, Literal, TypedDict, get_args

from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.sasl.stored_credentials import MECHANISM_NUMBERS
from pylogbroker.security.sasl.users import ITERATIONS_MIN, salt_password
from pylogbroker.web.changes import after_others
from pylogbroker.web.parameters import ROWS_MAX, Count, Name, Search, Start
from pylogbroker.web.responsible_brokers import controller_of
from pylogbroker.web.router import BadRequest
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pylogbroker.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
    UserName,
)

Mechanism = Literal["all", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_NUMBERS: Final = {name: number for number, name in MECHANISM_NUMBERS.items()}
_SALT_BYTES: Final = 24


class Credential(TypedDict):
    mechanism: str
    iterations: int


class UserRow(TypedDict):
    name: str
    error: str | None
    credentials: list[Credential]


class UserRows(RowRange):
    search: str
    mechanisms: list[str]
    users: list[UserRow]


class NamedUser(TypedDict):
    name: str


async def users(visitor: Visitor, search: Search = "", start: Start = 0, count: Count = ROWS_MAX) -> UserRows:
    """Return users by name, from the `start`th on, of those whose names contain `search`."""
    answer = await visitor.ask(DescribeUserScramCredentialsRequest())
    raise_for(answer.error_code, answer.error_message)
    results = visitor.services.runtime.slices.over(answer.results)
    matching = [result async for result in results if search in result.user]
    values, shown = slice_rows(start, count, matching)
    return {
        "search": search,
        "mechanisms": [*get_args(Mechanism)],
        **values,
        "users": [user_row(result) for result in shown],
    }


def user_row(result: DescribeUserScramCredentialsResult) -> UserRow:
    return {
        "name": result.user,
        "error": result.error_message if result.error_code else None,
        "credentials": [
            {"mechanism": MECHANISM_NUMBERS.get(credential.mechanism, "unknown"), "iterations": credential.iterations}
            for credential in result.credential_infos
        ],
    }


async def set_password(
    visitor: Visitor, name: Name, password: str, mechanism: Annotated[Mechanism, "of SCRAM"] = "all"
) -> NamedUser:
    """Add a user, or change the password of one, for one mechanism or for all."""
    if not password:
        raise BadRequest("password is empty")
    numbers = {name: number for name, number in _NUMBERS.items() if mechanism in ("all", name)}
    for done, (mechanism_name, number) in enumerate(numbers.items()):
        with after_others(done):
            salt = os.urandom(_SALT_BYTES)
            in_thread = visitor.services.runtime.in_thread
            salted = await in_thread(salt_password, mechanism_name, password, salt, ITERATIONS_MIN)
            row = ScramCredentialUpsertion(name, number, ITERATIONS_MIN, salt, salted)
            await _alter(visitor, AlterUserScramCredentialsRequest([], [row]))
    return {"name": name}


async def delete_user(visitor: Visitor, name: Name) -> NamedUser:
    """Delete all passwords of a user, who can no longer connect with one."""
    result = await visitor.ask_one(DescribeUserScramCredentialsRequest([UserName(name)]), "results", user=name)
    raise_for(result.error_code, result.error_message)
    for done, credential in enumerate(result.credential_infos):
        row = ScramCredentialDeletion(name, credential.mechanism)
        with after_others(done):
            await _alter(visitor, AlterUserScramCredentialsRequest([row], []))
    return {"name": name}


async def _alter(visitor: Visitor, request: AlterUserScramCredentialsRequest) -> None:
    """Send a change of one credential: Kafka rejects two of a user in one request."""
    result = await visitor.ask_one(request, "results", controller_of(visitor.services))
    raise_for(result.error_code, result.error_message)
