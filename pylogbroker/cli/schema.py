"""`pylogbroker schema`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import attrs
import click

from pylogbroker.cli.cluster_options import Connection, cluster_options, registry_option
from pylogbroker.cli.output import confirm, escaped_lines, format_option, note, show, yes_option
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from pylogbroker.cli import record_schemas, registry_address
    from pylogbroker.schemas import errors as schema_errors
    from pylogbroker.schemas import registry_client
    from pylogbroker.schemas.registry_client import RegistryClient
else:
    record_schemas = on_first_use("pylogbroker.cli.record_schemas")
    registry_address = on_first_use("pylogbroker.cli.registry_address")
    registry_client = on_first_use("pylogbroker.schemas.registry_client")
    schema_errors = on_first_use("pylogbroker.schemas.errors")

_SUBJECTS_PER_REQUEST: Final = 1000
_LEVELS: Final = (
    *("NONE", "BACKWARD", "FORWARD", "FULL"),
    *("BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"),
)
_MODES: Final = ("READWRITE", "READONLY", "IMPORT")


@click.group("schema", short_help="List, show, register, check and delete schemas of a registry.")
def command() -> None:
    """List, show, register, check and delete schemas of a registry.

    Without --schema-registry, it is the one that a broker of the cluster has by schema.registry.listeners. Another one
    with Confluent's interface works, too.
    """


@attrs.frozen(eq=False, repr=False)
class _Registry:
    """Requests to a registry; methods raise SchemaError."""

    _client: RegistryClient

    def ask(self, method: str, path: str, what: str, body: Any = None, remedy: str = "") -> Any:
        return registry_client.blocking(self._client.ask(method, path, what, remedy, body))

    def subjects(self, prefix: str, *, deleted: bool) -> list[str]:
        query = {"subjectPrefix": prefix or ":*:", **({"deleted": "true"} if deleted else {})}
        return sorted(self.ask("GET", f"/subjects?{urlencode(query)}", "subjects"))

    def version(self, subject: str, number: str) -> dict[str, Any]:
        what = registry_client.version_name(subject, number)
        path = f"{_path(subject)}/versions/{quote(number, safe='')}"
        fields: dict[str, Any] = self.ask("GET", path, what, remedy="`pylogbroker schema list` lists subjects")
        return fields


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a cluster and its registry."""
    return cluster_options(registry_option(function))


@contextmanager
def _registry_of(connection: Connection) -> Iterator[_Registry]:
    named = registry_address.with_cluster_registry(connection)
    client = record_schemas.registry_client(named.registry, connection.seconds)
    if client is None:
        raise ConfigError(
            "no broker of the cluster has a schema registry that this user sees: set schema.registry.listeners for"
            " one, or name a registry by --schema-registry URL"
        )
    yield _Registry(client)


@command.command("list", short_help="List subjects with their latest versions.")
@click.argument("prefix", required=False, default="")
@click.option("--deleted", is_flag=True, help="Also subjects that are soft-deleted.")
@_options
@format_option
def list_subjects(prefix: str, deleted: bool, connection: Connection, output: str) -> None:
    """List the subjects, or those that begin with PREFIX, with their latest versions."""
    with _registry_of(connection) as registry:
        query = {"subjectPrefix": prefix or ":*:", "latestOnly": "true", **({"deleted": "true"} if deleted else {})}
        rows: list[dict[str, Any]] = []
        while True:
            page = {**query, "offset": str(len(rows)), "limit": str(_SUBJECTS_PER_REQUEST)}
            versions = registry.ask("GET", f"/schemas?{urlencode(page)}", "schemas")
            rows += map(_row, versions)
            if len(versions) < _SUBJECTS_PER_REQUEST:
                break
    show(rows, output)


def _row(version: dict[str, Any]) -> dict[str, Any]:
    return {
        "subject": version["subject"],
        "version": version["version"],
        "id": version["id"],
        "type": version.get("schemaType", "AVRO"),
    }


@command.command("get", short_help="Print a schema: by its id, or of a subject.")
@click.argument("name", metavar="ID|SUBJECT[:VERSION]")
@click.option("--diff", "other", metavar="VERSION", help="Print the lines that differ from this version.")
@_options
@format_option
def get(name: str, other: str | None, connection: Connection, output: str) -> None:
    """Print a schema: the one with an id, or a version of a subject, by default the latest.

    A subject whose name is a number, or ends with a colon and a number, is given with its version.
    """
    with _registry_of(connection) as registry:
        if is_digits(name):
            if other is not None:
                raise click.UsageError("--diff needs a subject")
            fields = registry.ask("GET", f"/schemas/ids/{int(name)}", f"schema {name}")
        else:
            subject, number = _named_version(name)
            fields = registry.version(subject, number)
            if other is not None:
                _print_diff(registry.version(subject, other), fields)
                return
    if output == "table":
        click.echo(escaped_lines(_indented(fields)))
    else:
        show(fields, output)


def _named_version(name: str) -> tuple[str, str]:
    """Return a subject, whose name may have colons, and a version."""
    subject, colon, number = name.rpartition(":")
    if colon and subject and (number == "latest" or is_digits(number)):
        return subject, number
    return name, "latest"


def _indented(fields: dict[str, Any]) -> str:
    """Return the text of a schema, with JSON on lines of its own."""
    text = str(fields["schema"])
    if fields.get("schemaType") == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _print_diff(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = (f"{fields['subject']}:{fields['version']}" for fields in (old, new))
    lines = _indented(old).splitlines(), _indented(new).splitlines()
    for line in difflib.unified_diff(*lines, before, after, lineterm=""):
        click.echo(escaped_lines(line))


@command.command("versions", short_help="List the versions of a subject.")
@click.argument("subject")
@click.option("--deleted", is_flag=True, help="Also versions that are soft-deleted.")
@_options
@format_option
def versions(subject: str, deleted: bool, connection: Connection, output: str) -> None:
    """List the versions of a subject."""
    query = "?deleted=true" if deleted else ""
    with _registry_of(connection) as registry:
        numbers = registry.ask("GET", f"{_path(subject)}/versions{query}", f"subject {subject}")
        rows = [
            _row(registry.ask("GET", f"{_path(subject)}/versions/{int(number)}{query}", f"version {number}"))
            for number in numbers
        ]
    show(rows, output)


def _schema_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the file of a schema and its references."""
    with_references = click.option(
        "--schema-reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="A schema that it uses."
    )(function)
    with_normalize = click.option("--normalize", is_flag=True, help="Compare without the order of members.")(
        with_references
    )
    with_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))(with_normalize)
    return click.argument("subject")(with_file)


@command.command("register", short_help="Register the schema of a file, and print its id.")
@_schema_options
@_options
@format_option
def register(
    subject: str, file: Path, references: tuple[str, ...], normalize: bool, connection: Connection, output: str
) -> None:
    """Register the schema of FILE (.avsc, .json or .proto) in SUBJECT, and print its id.

    A schema that the subject has already is not registered again.
    """
    schema = record_schemas.schema_of_file(str(file), references)
    query = "?normalize=true" if normalize else ""
    with _registry_of(connection) as registry:
        path = f"{_path(subject)}/versions{query}"
        answer = registry.ask("POST", path, f"the schema for subject {subject}", schema.as_json())
    if output == "table":
        click.echo(answer["id"])
    else:
        show({"subject": subject, "id": answer["id"]}, output)


@command.command("check", short_help="Check whether a schema may follow those of a subject.")
@_schema_options
@click.option("--version", "number", metavar="VERSION", help="Compare with this version alone.")
@_options
@click.pass_context
def check(
    context: click.Context,
    subject: str,
    file: Path,
    references: tuple[str, ...],
    normalize: bool,
    number: str | None,
    connection: Connection,
) -> None:
    """Check whether the schema of FILE may follow those of SUBJECT, by its level of compatibility.

    The exit code is 1, and the reasons are printed, if it may not.
    """
    schema = record_schemas.schema_of_file(str(file), references)
    query = "?verbose=true" + ("&normalize=true" if normalize else "")
    version = "" if number is None else f"/{quote(number, safe='')}"
    with _registry_of(connection) as registry:
        path = f"/compatibility{_path(subject)}/versions{version}{query}"
        what = registry_client.version_name(subject, number or registry_client.LATEST)
        answer = registry.ask("POST", path, what, schema.as_json())
    if answer["is_compatible"]:
        click.echo(f"The schema may follow those of {subject}.")
        return
    for message in answer.get("messages", ()):
        click.echo(escaped_lines(str(message)))
    note(f"The schema may not follow those of {subject}.")
    context.exit(1)


@command.command("delete", short_help="Delete a subject or a version.")
@click.argument("name", metavar="SUBJECT[:VERSION]")
@click.option("--permanent", is_flag=True, help="For good, also what is only soft-deleted: its id is no longer known.")
@yes_option
@_options
def delete(name: str, permanent: bool, yes: bool, connection: Connection) -> None:
    """Soft-delete a subject or a version of it: records with its id are still decoded.

    With --permanent, it is gone for good, and such records are decoded no longer.
    """
    subject, number = _named_version(name)
    is_version = name != subject
    path = f"{_path(subject)}/versions/{number}" if is_version else _path(subject)
    question = f"Delete {f'version {number} of ' if is_version else ''}subject {subject}"
    question += " for good? Records with its schemas cannot be decoded any more." if permanent else "?"
    with _registry_of(connection) as registry:
        confirm(question, yes)
        if permanent:
            _soft_delete(registry, path, name)
        registry.ask("DELETE", f"{path}{'?permanent=true' if permanent else ''}", f"such subject or version: {name}")
    click.echo(f"Deleted {name}{' for good' if permanent else ''}.")


def _soft_delete(registry: _Registry, path: str, name: str) -> None:
    """Delete what is not soft-deleted yet, which a permanent deletion needs."""
    with suppress(schema_errors.UnknownSchema):  # which the deletion that follows reports
        registry.ask("DELETE", path, name)


@command.command("config", short_help="Show or set compatibility and mode, of a subject or of all.")
@click.argument("subject", required=False, default="")
@click.option("--compatibility", type=click.Choice(_LEVELS, case_sensitive=False), help="Set the level.")
@click.option("--mode", type=click.Choice(_MODES, case_sensitive=False), help="Set the mode.")
@click.option("--restore", is_flag=True, help="Let the level and the mode be those of all again.")
@_options
@format_option
def config(
    subject: str, compatibility: str | None, mode: str | None, restore: bool, connection: Connection, output: str
) -> None:
    """Show or set the level of compatibility and the mode of SUBJECT, or without it those of all subjects."""
    place = f"/{quote(subject, safe='')}" if subject else ""
    what = f"settings of subject {subject}" if subject else "settings"
    if restore and (compatibility or mode):
        raise click.UsageError("give --restore, or what to set")
    with _registry_of(connection) as registry:
        if restore:
            for kind in ("config", "mode"):
                _restore(registry, f"/{kind}{place}", what)
        if compatibility:
            registry.ask("PUT", f"/config{place}", what, {"compatibility": compatibility.upper()})
        if mode:
            registry.ask("PUT", f"/mode{place}", what, {"mode": mode.upper()})
        level = registry.ask("GET", f"/config{place}?defaultToGlobal=true", what)
        current = registry.ask("GET", f"/mode{place}?defaultToGlobal=true", what)
    show({"compatibility": level["compatibilityLevel"], "mode": current["mode"]}, output)


def _restore(registry: _Registry, path: str, what: str) -> None:
    with suppress(schema_errors.UnknownSchema):  # it has no setting of its own
        registry.ask("DELETE", path, what)


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
