"""Users with their passwords of SCRAM, ACLs and quotas: the table, and what somebody sees before a user is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypedDict, get_args

from pylogbroker.config.access_settings import parse_super_users
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.web.acl_views import described_acls, filter_of
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Name, Search
from pylogbroker.web.quota_views import described_quotas
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.user_views import Credential, Mechanism, NamedUser, UserRow, delete_user, set_password, user_row
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

_KEYS: Final = ("name", "acls", "quotas")
Sort = Annotated[str, OneOf((*_KEYS, *(f"-{key}" for key in _KEYS))), "a column; with - before it downwards"]
_PREFIX: Final = "User:"
_EVERYBODY: Final = "*"
_DEFAULT: Final = "(default)"


class UserLine(TypedDict):
    """A user: of SCRAM, or named in an ACL or a quota. Numbers are None for who may not see them.

    `is_super` is False for who may not see the settings of the broker.
    """

    name: str
    credentials: list[Credential]
    error: str | None
    acls: int | None
    quotas: int | None
    is_super: bool


class UserTable(Paged):
    search: str
    all_users: int
    has_authorizer: bool
    users: list[UserLine]


class UserToDelete(UserLine):
    has_authorizer: bool


class NewPassword(TypedDict):
    name: str
    mechanism: str
    mechanisms: list[str]


class _Uses:
    """Numbers of ACLs and quotas by user; None where there are none to see."""

    def __init__(self, acls: Counter[str] | None, quotas: Counter[str] | None) -> None:
        self.acls = acls
        self.quotas = quotas

    @property
    def names(self) -> set[str]:
        return {*(self.acls or ()), *(self.quotas or ())}

    def line(self, visitor: Visitor, row: UserRow) -> UserLine:
        name = row["name"]
        return {
            **row,
            "acls": None if self.acls is None else self.acls[name],
            "quotas": None if self.quotas is None else self.quotas[name],
            "is_super": visitor.sees_broker_settings
            and f"{_PREFIX}{name}" in parse_super_users(visitor.services.config.super_users),
        }


async def user_table(visitor: Visitor, search: Search = "", sort: Sort = "name", page: PageNumber = 1) -> UserTable:
    """Return a page of users, of those whose names contain `search`."""
    answer = await visitor.ask(DescribeUserScramCredentialsRequest())
    raise_for(answer.error_code, answer.error_message)
    slices, uses = visitor.services.runtime.slices, await _uses(visitor)
    rows: dict[str, UserRow] = {name: {"name": name, "error": None, "credentials": []} for name in uses.names}
    rows |= {result.user: user_row(result) async for result in slices.over(answer.results)}
    matching = [row async for row in slices.over(rows.values()) if search in row["name"]]
    ordered = await slices.in_order(matching, key=_order(sort.removeprefix("-"), uses))
    values, shown = paged(page, sort, ordered[::-1] if sort.startswith("-") else ordered)
    return {
        "search": search,
        "all_users": len(rows),
        "has_authorizer": visitor.services.authorizer is not None,
        **values,
        "users": [uses.line(visitor, row) for row in shown],
    }


def _order(column: str, uses: _Uses) -> Callable[[UserRow], Any]:
    counts: Mapping[str, int] = {"acls": uses.acls, "quotas": uses.quotas}.get(column) or {}
    return lambda row: (counts.get(row["name"], 0), row["name"])


async def _uses(visitor: Visitor) -> _Uses:
    """Count ACLs and quotas of users; one who may describe users may describe ACLs, but perhaps not quotas."""
    over = visitor.services.runtime.slices.over
    acls = await described_acls(visitor, filter_of())
    names = None
    if acls is not None:
        named = [acl.principal.removeprefix(_PREFIX) async for acl in over(acls) if acl.principal.startswith(_PREFIX)]
        names = Counter(name for name in named if name != _EVERYBODY)
    try:
        quotas = await described_quotas(visitor)
    except KafkaError:
        return _Uses(names, None)
    return _Uses(names, Counter(row["user"] for row in quotas if row["user"] not in (None, _DEFAULT)))


async def new_password(visitor: Visitor, name: Name = "", mechanism: Mechanism = "all") -> NewPassword:
    """Return what a password may be set for."""
    return {"name": name, "mechanism": mechanism, "mechanisms": [*get_args(Mechanism)]}


async def set_password_of_form(
    visitor: Visitor, name: Name, password: str, mechanism: Annotated[Mechanism, "of SCRAM"] = "all"
) -> NamedUser:
    """Add a user, or change the password of one."""
    if not name:
        raise BadRequest("write the name of the user", "name")
    if not password:
        raise BadRequest("write a password", "password")
    return await set_password(visitor, name, password, mechanism)


async def user_to_delete(visitor: Visitor, name: Name) -> UserToDelete:
    """Return a user that has a password, with what stays when it is deleted; raise KafkaError."""
    result = await visitor.ask_one(DescribeUserScramCredentialsRequest([UserName(name)]), "results", user=name)
    if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
        raise KafkaError(f"no password is stored for a user {name}", ErrorCode.RESOURCE_NOT_FOUND)
    uses = await _uses(visitor)
    return {**uses.line(visitor, user_row(result)), "has_authorizer": visitor.services.authorizer is not None}


async def delete_user_confirmed(visitor: Visitor, name: Name, confirm: Name) -> NamedUser:
    """Delete all passwords of a user, whose name is given twice."""
    if confirm != name:
        raise BadRequest(f"write {name}, the name of the user who can no longer connect", "confirm")
    return await delete_user(visitor, name)
