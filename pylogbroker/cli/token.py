"""`pylogbroker token`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import confirm, format_option, show, yes_option

if TYPE_CHECKING:
    from pylogbroker.client.admin import IssuedToken

_PERIOD = click.IntRange(min=0)


@click.group("token", short_help="Create, list, renew and expire delegation tokens.")
def command() -> None:
    """Create, list, renew and expire delegation tokens.

    A client with a token connects by SCRAM as the token's owner: its user is the token's id, its password the token's,
    and its login has the option tokenauth="true". The secret key of the brokers must be set, and a client that uses
    these commands must have a password or a certificate.
    """


@command.command("create", short_help="Create a token.")
@click.option("--owner", metavar="User:NAME", help="Owner of the token, by default you.")
@click.option("--renewer", "renewers", multiple=True, metavar="User:NAME", help="Who may renew it, besides the owner.")
@click.option("--lifetime-ms", type=click.IntRange(min=1), help="Longest lifetime, by default that of the broker.")
@cluster_options
@format_option
def create(
    owner: str | None, renewers: tuple[str, ...], lifetime_ms: int | None, connection: Connection, output: str
) -> None:
    """Create a token, and show it with its password. It expires earlier than its longest lifetime unless renewed."""
    with connection.admin() as admin:
        issued = admin.tokens.create(owner, renewers, lifetime_ms)
    _show([issued], output)


@command.command("list", short_help="List tokens with their passwords.")
@click.option("--owner", "owners", multiple=True, metavar="User:NAME", help="Only tokens of this owner or renewer.")
@cluster_options
@format_option
def list_tokens(owners: tuple[str, ...], connection: Connection, output: str) -> None:
    """List the tokens that you may see, with their passwords: those that you own, requested or may renew, and more."""
    with connection.admin() as admin:
        tokens = admin.tokens.describe(owners or None)
    _show(sorted(tokens, key=lambda issued: (issued.token.owner, issued.token.issued_ms)), output)


@command.command("renew", short_help="Postpone the expiry of a token.")
@click.argument("token_id")
@click.option("--period-ms", type=_PERIOD, help="Time from now on, by default that of the broker.")
@cluster_options
def renew(token_id: str, period_ms: int | None, connection: Connection) -> None:
    """Postpone the expiry of a token, which its owner and its renewers may do."""
    with connection.admin() as admin:
        expires_ms = admin.tokens.renew(_hmac(admin, token_id), period_ms)
    click.echo(f"Token {token_id} expires at {_time(expires_ms)}.")


@command.command("expire", short_help="Delete a token, or let it expire soon.")
@click.argument("token_id")
@click.option("--period-ms", type=_PERIOD, help="Time from now on until it expires, instead of a deletion.")
@yes_option
@cluster_options
def expire(token_id: str, period_ms: int | None, yes: bool, connection: Connection) -> None:
    """Delete a token, or let it expire soon, which its owner and its renewers may do.

    Connections that are authenticated stay until their session ends.
    """
    with connection.admin() as admin:
        hmac = _hmac(admin, token_id)
        confirm(f"Delete token {token_id}?" if period_ms is None else f"Let token {token_id} expire?", yes)
        expires_ms = admin.tokens.expire(hmac, period_ms)
    if period_ms is None:
        click.echo(f"Token {token_id} is deleted.")
    else:
        click.echo(f"Token {token_id} expires at {_time(expires_ms)}.")


def _hmac(admin: Any, token_id: str) -> bytes:
    """Return the HMAC of a token that the caller may see."""
    for issued in admin.tokens.describe():
        if issued.token.token_id == token_id:
            hmac: bytes = issued.hmac
            return hmac
    raise click.ClickException(f"there is no token {token_id} that you may see; `pylogbroker token list` shows them")


def _show(tokens: Iterable[IssuedToken], output: str) -> None:
    rows: list[dict[str, Any]] = [
        {
            "token": issued.token.token_id,
            "password": issued.password,
            "owner": issued.token.owner,
            "requester": issued.token.requester,
            "renewers": list(issued.token.renewers),
            "issued_ms": issued.token.issued_ms,
            "expires_ms": issued.token.expires_ms,
            "max_ms": issued.token.max_ms,
        }
        for issued in tokens
    ]
    show(rows, output, [{name.removesuffix("_ms"): _cell(name, row[name]) for name in row} for row in rows])


def _cell(name: str, value: Any) -> Any:
    return _time(value) if name.endswith("_ms") else value


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
