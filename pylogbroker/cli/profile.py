"""`pylogbroker profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.arguments import assignments
from pylogbroker.cli.cluster_options import REGISTRY_SETTINGS
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.profiles import (
    KEYRING_SERVICE,
    Profile,
    ProfileFile,
    default_path,
    is_secret_source,
    store_in_keyring,
)
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.client import settings as client_settings
    from pylogbroker.config import properties
    from pylogbroker.schemas import endpoint
else:
    client_settings = on_first_use("pylogbroker.client.settings")
    endpoint = on_first_use("pylogbroker.schemas.endpoint")
    properties = on_first_use("pylogbroker.config.properties")

_BOOTSTRAP: Final = "bootstrap.servers"
_HIDDEN: Final = "********"


@click.group("profile", short_help="Name clusters with their settings: create, use, list, show, delete.")
def command() -> None:
    """Name clusters with their settings, in a file of the user.

    It is ~/.config/pylogbroker/config.toml, or the one that PYLOGBROKER_CONFIG names. Other commands take the default
    profile, or the one of --profile.
    """


def _complete_profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in sorted(_read().profiles) if name.startswith(incomplete)]
    except Exception:
        return []  # a shell has no place for errors


@command.command("create", short_help="Add a profile; the first one becomes the default.")
@click.argument("name")
@click.option("-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT,...", help="Brokers to connect to first.")
@click.option("--command-config", metavar="FILE", help="Take over the settings of a properties file.")
@click.option("-X", "given", multiple=True, metavar="NAME=VALUE", help="A setting of the client; may be repeated.")
@click.option(
    "--secret-file", "files", multiple=True, metavar="NAME=FILE", help="A setting whose value is read from a file."
)
@click.option("--keyring", "kept", multiple=True, metavar="NAME", help="Ask for a setting; keep it in the keyring.")
@click.option("--ask", "prompted", multiple=True, metavar="NAME", help="Ask for a setting; keep it in the profile.")
@click.option("--use", is_flag=True, help="Make this the default profile.")
def create(
    name: str,
    bootstrap: str | None,
    command_config: str | None,
    given: tuple[str, ...],
    files: tuple[str, ...],
    kept: tuple[str, ...],
    prompted: tuple[str, ...],
    use: bool,
) -> None:
    """Add a profile with settings of clients.

    \b
    pylogbroker profile create local -b 127.0.0.1:9092
    pylogbroker profile create production -b one:9093,two:9093 -X security.protocol=SASL_SSL \\
        -X ssl.ca.location=/etc/pki/kafka.pem -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=admin \\
        --keyring sasl.password
    """
    plain = assignments(given, "-X")
    _check(plain, are_typed=True)
    places = assignments(files, "--secret-file")
    read = {} if command_config is None else properties.read(command_config)
    profile: dict[str, Any] = {**read, **plain}
    if bootstrap:
        profile[_BOOTSTRAP] = bootstrap
    if not profile.get(_BOOTSTRAP):
        raise click.UsageError("name the brokers by --bootstrap-server HOST:PORT,...")
    _check({**profile, **dict.fromkeys((*places, *kept, *prompted), "")}, are_typed=False)
    profile |= {setting: {"file": str(Path(path).expanduser().absolute())} for setting, path in places.items()}
    file = _read()
    file.added(name, profile)  # before anybody is asked
    for setting in prompted:
        profile[setting] = _ask(setting)
    for setting in kept:
        profile[setting] = {"keyring": f"{name}/{setting}"}
        store_in_keyring(f"{name}/{setting}", _ask(setting))
    changed = file.added(name, profile)
    is_default = use or not file.profiles
    if is_default:
        changed = changed.with_default(name)
    changed.settings(name)  # its files can be read
    changed.save()
    role = "the default" if is_default else f"`--profile {name}` or `pylogbroker profile use {name}` chooses it"
    click.echo(f"Created profile {name} in {changed.path}: {role}.", err=True)


def _check(profile: dict[str, str], *, are_typed: bool) -> None:
    """Raise ConfigError for an unknown setting or a wrong value, or UsageError for a secret that was typed."""
    table = {**client_settings.PRODUCER, **client_settings.CONSUMER}
    registry = {name: value for name, value in profile.items() if name.startswith(REGISTRY_SETTINGS)}
    endpoint.RegistryEndpoint.check_names(registry)
    given = {name: value for name, value in profile.items() if name not in registry}
    client_settings.read(table, {name: value for name, value in given.items() if value or name not in table})
    for name in profile:
        if are_typed and _is_secret(name):
            raise click.UsageError(
                f"-X {name}: others would see this secret in the list of processes, and the shell's history keeps it:"
                f" use --ask {name}, --keyring {name}, or --secret-file {name}=FILE"
            )


def _ask(setting: str) -> str:
    secret: str = click.prompt(setting, hide_input=True, err=True)
    return secret


@command.command("use", short_help="Make a profile the default.")
@click.argument("name", shell_complete=_complete_profiles)
def use(name: str) -> None:
    """Make a profile the default."""
    file = _read()
    file.profile(name)
    file.with_default(name).save()
    click.echo(f"Commands use profile {name} now.", err=True)


@command.command("list", short_help="List profiles.")
@format_option
def list_profiles(output: str) -> None:
    """List profiles."""
    file = _read()
    show(
        [
            {
                "profile": name,
                "default": name == file.default,
                "bootstrap_servers": profile.get(_BOOTSTRAP),
                "security_protocol": profile.get("security.protocol", "PLAINTEXT"),
            }
            for name, profile in sorted(file.profiles.items())
        ],
        output,
    )


@command.command("show", short_help="Show the settings of a profile.")
@click.argument("name", required=False, shell_complete=_complete_profiles)
@format_option
def show_profile(name: str | None, output: str) -> None:
    """Show the settings of a profile, or of the default one. Secrets are hidden."""
    file = _read()
    chosen = name or file.default
    if chosen is None:
        raise ConfigError(f"{file.path}: there is no default profile: name one, or make one the default by `use`")
    settings = _shown(file.profile(chosen))
    rows = [{"setting": setting, "value": value} for setting, value in settings.items()]
    show({"profile": chosen, "settings": settings}, output, rows)


def _is_secret(name: str) -> bool:
    table = {**client_settings.PRODUCER, **client_settings.CONSUMER}
    return table[name].sensitive if name in table else name in endpoint.SECRETS


def _shown(profile: Profile) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in profile.items():
        if is_secret_source(value):
            [(source, place)] = value.items()
            shown[name] = f"in the keyring as {place} of {KEYRING_SERVICE}" if source == "keyring" else f"in {place}"
        else:
            shown[name] = _HIDDEN if _is_secret(name) else value
    return shown


@command.command("delete", short_help="Delete a profile.")
@click.argument("name", shell_complete=_complete_profiles)
@yes_option
def delete(name: str, yes: bool) -> None:
    """Delete a profile. Files with its secrets, and its secrets in a keyring, stay."""
    changed = _read().without(name)
    confirm(f"Delete profile {name}?", yes)
    changed.save()
    click.echo(f"Deleted profile {name}.", err=True)


def _read() -> ProfileFile:
    path = default_path()
    if path is None:
        raise ConfigError("there is no home directory: name the file of profiles by PYLOGBROKER_CONFIG")
    return ProfileFile.read_or_empty(path)
