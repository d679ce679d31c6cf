"""Options of commands that work on a running cluster, and the connection that they describe.

A profile is a table in a TOML file, `~/.config/pylogbroker/config.toml` or $PYLOGBROKER_CONFIG:

    default = "production"

    [profiles.production]
    "bootstrap.servers" = "one:9092,two:9092"
    "security.protocol" = "SSL"
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    import tomllib

    from pylogbroker.client import settings as client_settings
    from pylogbroker.client.sync import admin as sync_admin
    from pylogbroker.client.sync.admin import AdminClient
    from pylogbroker.config import properties
else:
    client_settings = on_first_use("pylogbroker.client.settings")
    properties = on_first_use("pylogbroker.config.properties")
    sync_admin = on_first_use("pylogbroker.client.sync.admin")
    tomllib = on_first_use("tomllib")

_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 5.0  # so that the client's own error comes first, which says more
_COMPLETION_SECONDS: Final = 1.0
_BOOTSTRAP: Final = "bootstrap.servers"
#: For a wrong address to be known at once; brokers that restart may take longer, with -X.
_DEFAULTS: Final = {"bootstrap.connect.max.ms": "2000"}


class Connection:
    """Settings of a client, from a profile, a file, and options, in rising precedence."""

    def __init__(self, settings: Mapping[str, str], seconds: float = _SECONDS) -> None:
        if not settings.get(_BOOTSTRAP):
            raise ConfigError(
                "no brokers are given: use --bootstrap-server HOST:PORT, or set PYLOGBROKER_BOOTSTRAP_SERVER"
            )
        self.seconds = seconds
        self._settings = settings

    def settings(self, table: Mapping[str, object]) -> dict[str, str]:
        """Return those settings that are in a client's table, or in no client's: the client reports them."""
        others = {*client_settings.PRODUCER, *client_settings.CONSUMER} - table.keys()
        return _DEFAULTS | {name: value for name, value in self._settings.items() if name not in others}

    @contextmanager
    def admin(self, grace: float = _GRACE_SECONDS) -> Iterator[AdminClient]:
        timeout = {"default.api.timeout.ms": str(round(self.seconds * 1000))}
        settings = {**timeout, **self.settings(client_settings.CLIENT)}
        with sync_admin.AdminClient(settings=settings, timeout=self.seconds + grace) as admin:
            yield admin


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the connection to a cluster as `connection`."""
    return _cluster_options(function, Connection)


def optional_cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `cluster_options`, but pass None if no brokers are given."""

    def connect(settings: Mapping[str, str], seconds: float) -> Connection | None:
        return Connection(settings, seconds) if settings.get(_BOOTSTRAP) else None

    return _cluster_options(function, connect)


def _cluster_options(
    function: Callable[..., Any], connect: Callable[[Mapping[str, str], float], Connection | None]
) -> Callable[..., Any]:
    @click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT,...",
        envvar="PYLOGBROKER_BOOTSTRAP_SERVER",
        help="Brokers to connect to first. [$PYLOGBROKER_BOOTSTRAP_SERVER]",
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
    @click.option("--profile", metavar="NAME", envvar="PYLOGBROKER_PROFILE", help="Profile in the user's config.toml.")
    @click.option(
        "--timeout", "seconds", type=click.FloatRange(0.1), default=_SECONDS, show_default=True, metavar="SECONDS"
    )
    @functools.wraps(function)
    def with_connection(
        *arguments: Any,
        bootstrap: str | None,
        command_config: str | None,
        assignments: tuple[str, ...],
        profile: str | None,
        seconds: float,
        **others: Any,
    ) -> Any:
        settings = _settings(bootstrap, command_config, assignments, profile)
        return function(*arguments, connection=connect(settings, seconds), **others)

    return with_connection


def _complete_client_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in client_settings.CLIENT if name.startswith(incomplete)]


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete_from_cluster(context, incomplete, lambda admin: [topic.name for topic in admin.topics.list()])


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete_from_cluster(context, incomplete, lambda admin: [group.group for group in admin.groups.list()])


def complete_from_cluster(
    context: click.Context, incomplete: str, names: Callable[[AdminClient], Iterable[str]]
) -> list[str]:
    """Return names from the cluster of the options typed so far; none if it does not answer at once."""
    given = context.params
    try:
        bootstrap = given.get("bootstrap") or os.environ.get("PYLOGBROKER_BOOTSTRAP_SERVER")
        settings = _settings(
            bootstrap, given.get("command_config"), given.get("assignments") or (), given.get("profile")
        )
        with Connection(settings, _COMPLETION_SECONDS).admin(grace=0) as admin:
            return [name for name in names(admin) if name.startswith(incomplete)]
    except Exception:
        return []  # a shell has no place for errors


def _settings(
    bootstrap: str | None, file: str | None, assignments: tuple[str, ...], profile: str | None
) -> dict[str, str]:
    settings = _profile(profile)
    if file is not None or assignments:
        settings |= {} if file is None else properties.read(file)
        settings |= properties.parse_assignments(assignments)
    return settings | ({_BOOTSTRAP: bootstrap} if bootstrap else {})


def _profile(name: str | None) -> dict[str, str]:
    named = os.environ.get("PYLOGBROKER_CONFIG")
    path = _default_file() if not named else Path(named)
    if path is None and name is not None:
        raise ConfigError(f"profile {name}: there is no home directory: name the file by PYLOGBROKER_CONFIG")
    if path is None or (name is None and not os.path.exists(path)):  # also if the directory cannot be read
        return {}
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        if name is None and not named:  # nobody asked for it, such as that of another user's HOME
            click.echo(f"{path} is not read: {error.strerror}", err=True)
            return {}
        raise ConfigError(f"{f'profile {name}: ' if name else ''}{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML in UTF-8: {error}") from error
    profiles = content.get("profiles", {})
    chosen = content.get("default") if name is None else name
    if chosen is None:
        return {}
    if not isinstance(profiles, dict) or not isinstance(profiles.get(chosen), dict):
        names = ", ".join(sorted(profiles)) if isinstance(profiles, dict) and profiles else "none"
        raise ConfigError(f"{path}: there is no profile {chosen}; it has {names}: add a table [profiles.{chosen}]")
    return {setting: _text(value) for setting, value in profiles[chosen].items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default_file() -> Path | None:
    """Return None without a home directory."""
    try:
        directory = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:
        return None
    return directory / "pylogbroker" / "config.toml"
