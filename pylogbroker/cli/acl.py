"""`pylogbroker acl`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import AclBinding, AclFilter
    from pylogbroker.security.acls import bindings as acl_bindings
else:
    acl_bindings = on_first_use("pylogbroker.security.acls.bindings")
    admin_api = on_first_use("pylogbroker.client.admin")

_TYPES: Final = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user")
_OPERATIONS: Final = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs"),
    *("alter-configs", "idempotent-write", "create-tokens", "describe-tokens"),
)


@click.group("acl", short_help="Show, create and delete access control lists.")
def command() -> None:
    """Show, create and delete access control lists."""


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a filter as `acl_filter`: None if nothing selects."""

    @click.option("--resource", "kind", type=click.Choice(_TYPES), help="Only this kind of resource.")
    @click.option("--name", help="Only resources of this name.")
    @click.option(
        "--pattern",
        type=click.Choice(["any", "match", "literal", "prefixed"]),
        default="any",
        show_default=True,
        help="match: the ACLs that concern a resource of this name.",
    )
    @click.option("--principal", metavar="User:NAME", help="Only this principal.")
    @click.option("--host", help="Only this host.")
    @click.option("--operation", type=click.Choice(_OPERATIONS), help="Only this operation.")
    @click.option("--permission", type=click.Choice(["allow", "deny"]), help="Only this permission.")
    @functools.wraps(function)
    def with_filter(
        *arguments: Any,
        kind: str | None,
        name: str | None,
        pattern: str,
        principal: str | None,
        host: str | None,
        operation: str | None,
        permission: str | None,
        **others: Any,
    ) -> Any:
        acl_filter = admin_api.AclFilter(
            admin_api.AclResourceType[_member(kind)],
            name,
            admin_api.PatternType[_member(pattern)],
            principal,
            host,
            admin_api.AclOperation[_member(operation)],
            admin_api.AclPermission[_member(permission)],
        )
        return function(*arguments, acl_filter=acl_filter, **others)

    return with_filter


@command.command("list", short_help="Show ACLs.")
@_filter_options
@cluster_options
@format_option
def list_acls(acl_filter: AclFilter, connection: Connection, output: str) -> None:
    """Show the ACLs that options select; by default all."""
    with connection.admin() as admin:
        bindings = admin.acls.describe(acl_filter)
    show(acl_rows(bindings), output)


@command.command("describe", short_help="Show all ACLs that concern a resource.")
@click.argument("kind", type=click.Choice(_TYPES))
@click.argument("name", required=False)
@cluster_options
@format_option
def describe(kind: str, name: str | None, connection: Connection, output: str) -> None:
    """Show the ACLs that decide about a resource: of its name, of a prefix of it, and of all names.

    Such as: pylogbroker acl describe topic orders
    """
    if name is None and kind != "cluster":
        raise click.UsageError("give the NAME of the resource, such as: acl describe topic orders")
    resource = admin_api.AclResourceType[_member(kind)]
    pattern = admin_api.PatternType.MATCH
    with connection.admin() as admin:
        bindings = admin.acls.describe(admin_api.AclFilter(resource, name or acl_bindings.CLUSTER_NAME, pattern))
    show(acl_rows(bindings), output)


@command.command("create", short_help="Allow or deny operations on a resource.")
@click.argument("permission", type=click.Choice(["allow", "deny"]))
@click.argument("principal", metavar="User:NAME")
@click.argument("operations", type=click.Choice(_OPERATIONS), nargs=-1, required=True)
@click.option("--resource", "kind", type=click.Choice(_TYPES), required=True, help="Kind of the resource.")
@click.option("--name", help="Name of the resource, * for all. A cluster needs none.")
@click.option("--prefixed", is_flag=True, help="All resources whose names begin with NAME.")
@click.option("--host", default="*", show_default=True, help="Address that the principal connects from.")
@cluster_options
@format_option
def create(
    permission: str,
    principal: str,
    operations: tuple[str, ...],
    kind: str,
    name: str | None,
    prefixed: bool,
    host: str,
    connection: Connection,
    output: str,
) -> None:
    """Allow or deny a principal operations on a resource.

    Such as: pylogbroker acl create allow User:alice read describe --resource topic --name orders
    """
    if name is None and kind != "cluster":
        raise click.UsageError("give the resource's --name; * stands for all")
    if ":" not in principal:
        raise click.BadParameter(f"{principal!r}: expected a type and a name, such as User:alice")
    pattern = admin_api.PatternType.PREFIXED if prefixed else admin_api.PatternType.LITERAL
    resource = admin_api.ResourcePattern(
        admin_api.AclResourceType[_member(kind)], acl_bindings.CLUSTER_NAME if name is None else name, pattern
    )
    allowed = admin_api.AclPermission[_member(permission)]
    made = [
        admin_api.AclBinding(
            resource, admin_api.AccessControlEntry(principal, host, admin_api.AclOperation[_member(operation)], allowed)
        )
        for operation in dict.fromkeys(operations)
    ]
    with connection.admin() as admin:
        admin.acls.create(made)
    show(acl_rows(made), output)


@command.command("delete", short_help="Delete ACLs.")
@_filter_options
@yes_option
@cluster_options
@format_option
def delete(acl_filter: AclFilter, yes: bool, connection: Connection, output: str) -> None:
    """Delete the ACLs that options select. They are shown first."""
    if acl_filter == admin_api.AclFilter():
        raise click.UsageError("give options that select ACLs, such as --principal User:alice")
    with connection.admin() as admin:
        show(acl_rows(admin.acls.describe(acl_filter)), output)
        confirm("Delete these ACLs?", yes)
        admin.acls.delete([acl_filter])


def _member(text: str | None) -> str:
    return "ANY" if text is None else text.upper().replace("-", "_")


def acl_rows(bindings: Iterable[AclBinding]) -> list[dict[str, Any]]:
    rows = [
        {
            "principal": binding.entry.principal,
            "host": binding.entry.host,
            "permission": _word(binding.entry.permission),
            "operation": _word(binding.entry.operation),
            "resource": _word(binding.resource.type),
            "name": binding.resource.name,
            "pattern": _word(binding.resource.pattern),
        }
        for binding in bindings
    ]
    return sorted(rows, key=lambda it: (it["resource"], it["name"], it["principal"], it["operation"]))


def _word(member: IntEnum) -> str:
    """Return a member's name; of a plain number, which a newer broker returned, its digits."""
    return member.name.lower().replace("_", "-") if isinstance(member, IntEnum) else str(member)
