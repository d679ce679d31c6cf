"""Options of commands that work on a running cluster, and the connection that they describe."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.output import note
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking import admin as brokers_admin
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.cli import group_names, name_queries, profiles, rights
    from pylogbroker.cli.name_queries import NamesOf
    from pylogbroker.cli.rights import Right
    from pylogbroker.client import errors as client_errors
    from pylogbroker.client import settings as client_settings
    from pylogbroker.config import properties
    from pylogbroker.wire import Request
else:
    group_names = on_first_use("pylogbroker.cli.group_names")
    name_queries = on_first_use("pylogbroker.cli.name_queries")
    client_errors = on_first_use("pylogbroker.client.errors")
    client_settings = on_first_use("pylogbroker.client.settings")
    profiles = on_first_use("pylogbroker.cli.profiles")
    rights = on_first_use("pylogbroker.cli.rights")
    properties = on_first_use("pylogbroker.config.properties")
    brokers_admin = on_first_use("pylogbroker.blocking.admin")

_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 5.0  # so that the client's own error comes first, which says more
_COMPLETION_SECONDS: Final = 1.0
_BOOTSTRAP: Final = "bootstrap.servers"
_DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_VARIABLE: Final = "PYLOGBROKER_BOOTSTRAP_SERVER"
REGISTRY_SETTINGS: Final = "schema.registry."
"""Prefix of settings of a schema registry: the client does not get them."""
REGISTRY_URL: Final = f"{REGISTRY_SETTINGS}url"
_REGISTRY_VARIABLE: Final = "PYLOGBROKER_SCHEMA_REGISTRY"
#: For a wrong address to be known at once; brokers that restart may take longer, with -X.
_DEFAULTS: Final = {"bootstrap.connect.max.ms": "500"}
_OF_DEFAULT_ADDRESS: Final = (
    "this is the default address: start a broker by `pylogbroker broker start`, or name one by -b HOST:PORT,"
    f" {_VARIABLE} or `pylogbroker profile create`"
)


class Connection:
    """Settings of a client; `remedy` says where the address is from, for brokers that are not reached."""

    def __init__(self, settings: Mapping[str, str], seconds: float = _SECONDS, remedy: str = "") -> None:
        self.seconds = seconds
        self.bootstrap = settings[_BOOTSTRAP]
        self.given: Mapping[str, str] = {
            name: value
            for name, value in settings.items()
            if name != _BOOTSTRAP and not name.startswith(REGISTRY_SETTINGS)
        }
        self.registry: Mapping[str, str] = {
            name: value for name, value in settings.items() if name.startswith(REGISTRY_SETTINGS)
        }
        self._settings = settings
        self._remedy = remedy
        self.needs: Mapping[str, Right] = {}
        """Rights that the whole command needs, by the kind of resource in a broker's error."""

    def with_settings(self, settings: Mapping[str, str]) -> Connection:
        """Return the connection with settings that options of a command name."""
        return Connection({**self._settings, **settings}, self.seconds, self._remedy)

    def settings(self, table: Mapping[str, object]) -> dict[str, str]:
        """Return those settings that are in a client's table, or in no client's: the client reports them."""
        others = {*client_settings.PRODUCER, *client_settings.CONSUMER, *self.registry} - table.keys()
        return _DEFAULTS | {name: value for name, value in self._settings.items() if name not in others}

    @contextmanager
    def admin(
        self, grace: float = _GRACE_SECONDS, report: Callable[[str], object] | None = note
    ) -> Iterator[BlockingAdmin]:
        timeout = {"default.api.timeout.ms": str(round(self.seconds * 1000))}
        settings = {**timeout, **self.settings(client_settings.CLIENT)}
        with (
            self.explained(),
            brokers_admin.BlockingAdmin(settings, self.seconds + grace, report, self._with_rights) as admin,
        ):
            yield admin

    def _with_rights(self, error: PylogbrokerError, requests: Sequence[Request]) -> PylogbrokerError:
        return rights.explained(error, requests, self.needs, self.principal)

    @property
    def principal(self) -> str | None:
        """The user as brokers call it without rules of their own; None if only they know."""
        protocol = self._settings.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol.startswith("SASL_"):
            mechanism = self._settings.get("sasl.mechanism", "").upper()
            user = self._settings.get("sasl.username")
            return f"User:{user}" if user and mechanism.startswith(("PLAIN", "SCRAM")) else None
        has_certificate = any(name.startswith(("ssl.keystore", "ssl.certificate")) for name in self._settings)
        return None if has_certificate else "User:ANONYMOUS"

    def note_hidden(self, admin: BlockingAdmin, what: str) -> None:
        """Say that a list may lack what this user may not describe, if so."""
        if not admin.cluster.may_describe():
            note(f"{what} that {self.principal or 'this user'} may not describe are not shown.")

    def check_may_describe(self, admin: BlockingAdmin) -> None:
        """Raise KafkaError if the user may not describe the cluster: Kafka's brokers leave some requests unanswered."""
        if not admin.cluster.may_describe():
            self.needs = {"cluster": rights.Right("describe", "cluster")}
            raise KafkaError("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in errors where the address of a broker that is not reached is from, and which right is missing."""
        try:
            yield
        except client_errors.NotAuthenticated as error:
            user = self._settings.get("sasl.username")
            if not user or error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            raise client_errors.NotAuthenticated(
                f"{error} (user {user}): are sasl.username and sasl.password right?", error.code
            ) from error
        except KafkaError as error:
            raise self._with_rights(error, ()) from error
        except PylogbrokerError as error:
            if self._remedy and isinstance(error, client_errors.NeverReached):
                raise client_errors.NeverReached(f"{error} {self._remedy}") from error
            raise


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the connection to a cluster as `connection`."""

    @click.option(
        "--timeout",
        "seconds",
        type=click.FloatRange(0.1),
        default=_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Time to try while brokers do not answer.",
    )
    @functools.wraps(function)
    def with_timeout(*arguments: Any, connection: Connection, seconds: float, **others: Any) -> Any:
        connection.seconds = seconds
        return function(*arguments, connection=connection, **others)

    return address_options(with_timeout)


def address_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `cluster_options`, without a limit of time."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT,...",
        help=f"Brokers to connect to first. [${_VARIABLE}; default: {_DEFAULT_ADDRESS}]",
    )
    @click.option("--command-config", metavar="FILE", help="Properties file with settings of a client.")
    @click.option(
        "-X",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=_complete_client_settings,
        help="A setting of the client.",
    )
    @click.option("--profile", metavar="NAME", help="A profile of `pylogbroker profile list`. [$PYLOGBROKER_PROFILE]")
    @functools.wraps(function)
    def with_connection(
        *arguments: Any,
        bootstrap: str | None,
        command_config: str | None,
        assignments: tuple[str, ...],
        profile: str | None,
        **others: Any,
    ) -> Any:
        connection = _connection(bootstrap, command_config, assignments, profile)
        return function(*arguments, connection=connection, **others)

    return with_connection


def _complete_client_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in client_settings.CLIENT if name.startswith(incomplete)]


def registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the address of a schema registry to the settings of the connection."""

    @click.option(
        "-r",
        "--schema-registry",
        "registry",
        metavar="URL",
        help=f"Schema registry. [${_REGISTRY_VARIABLE}; {REGISTRY_URL} in a profile]",
    )
    @functools.wraps(function)
    def with_registry(*arguments: Any, connection: Connection, registry: str | None, **others: Any) -> Any:
        if registry is not None:
            connection = connection.with_settings({REGISTRY_URL: registry})
        return function(*arguments, connection=connection, **others)

    return with_registry


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete_names(context, incomplete, lambda: name_queries.topics)


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete_names(context, incomplete, lambda: group_names.groups)


def complete_names(context: click.Context, incomplete: str, query: Callable[[], NamesOf]) -> list[str]:
    """Return names from the cluster of the options typed so far; none if it does not answer at once."""

    def names(connection: Connection) -> Iterable[str]:
        return name_queries.names(connection.settings(client_settings.CLIENT), _COMPLETION_SECONDS, query())

    return _completed(context, incomplete, names)


def complete_from_cluster(
    context: click.Context, incomplete: str, names: Callable[[BlockingAdmin], Iterable[str]]
) -> list[str]:
    """Like `complete_names`, for names that the admin client alone knows."""

    def from_admin(connection: Connection) -> list[str]:
        connection.seconds = _COMPLETION_SECONDS
        with connection.admin(grace=0, report=None) as admin:
            return [*names(admin)]

    return _completed(context, incomplete, from_admin)


def _completed(context: click.Context, incomplete: str, names: Callable[[Connection], Iterable[str]]) -> list[str]:
    given = context.params
    try:
        connection = _connection(
            given.get("bootstrap"), given.get("command_config"), given.get("assignments") or (), given.get("profile")
        )
        matching = (name for name in names(connection) if name.startswith(incomplete))
        return [name for name in matching if name.isprintable()]  # a shell writes them to the terminal
    except Exception:
        return []  # a shell has no place for errors


def _connection(
    bootstrap: str | None, file: str | None, assignments: tuple[str, ...], profile: str | None
) -> Connection:
    """Join settings by rising precedence: the default, profile, environment, options."""
    if bootstrap is not None and not bootstrap.strip():
        raise ConfigError("--bootstrap-server is empty: give HOST:PORT, or leave the option out")
    variable = os.environ.get(_VARIABLE, "")
    of_variable = [(f"the address is from {_VARIABLE}.", {_BOOTSTRAP: variable})] if variable else []
    if registry := os.environ.get(_REGISTRY_VARIABLE, ""):
        of_variable.append(("", {REGISTRY_URL: registry}))
    chosen = _profile(profile)
    of_profile = [(f"the address is that of {whose}.", settings) for whose, settings in chosen]
    layers = [
        (_OF_DEFAULT_ADDRESS, {_BOOTSTRAP: _DEFAULT_ADDRESS}),
        *([*of_profile, *of_variable] if profile is None else [*of_variable, *of_profile]),
        ("", {} if file is None else properties.read(file)),
        ("", properties.parse_assignments(assignments) if assignments else {}),
        ("", {} if bootstrap is None else {_BOOTSTRAP: bootstrap}),
    ]
    settings: dict[str, str] = {}
    remedy = ""
    for whose, layer in layers:
        if layer.get(_BOOTSTRAP) is not None:
            remedy = whose
        settings |= layer
    for whose, layer in chosen:
        if settings[_BOOTSTRAP] != layer.get(_BOOTSTRAP) and layer.keys() - {_BOOTSTRAP}:
            remedy = f"{remedy} Other settings are those of {whose}.".lstrip()
    return Connection(settings, remedy=remedy)


def _profile(name: str | None) -> list[tuple[str, dict[str, str]]]:
    """Return the profile, named and as settings: the one of the option, of the environment, or the default one."""
    variable = os.environ.get("PYLOGBROKER_PROFILE")
    named = name or variable or None
    is_named_file = bool(os.environ.get("PYLOGBROKER_CONFIG"))
    path = profiles.default_path()
    if path is None and named is not None:
        raise ConfigError(f"profile {named}: there is no home directory: name the file by PYLOGBROKER_CONFIG")
    if path is None or (named is None and not os.path.exists(path)):  # also if the directory cannot be read
        return []
    try:
        file = profiles.ProfileFile.read(path)
    except OSError as error:
        if named is None and not is_named_file:  # nobody asked for it, such as that of another user's HOME
            click.echo(f"{path} is not read: {error.strerror}", err=True)
            return []
        raise ConfigError(f"{f'profile {named}: ' if named else ''}{path}: {error.strerror}") from error
    chosen = named or file.default
    return [] if chosen is None else [(f"profile {chosen} in {path}", file.settings(chosen))]
