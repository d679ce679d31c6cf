"""`pylogbroker certificates`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.security.tls import authority as tls_authority
    from pylogbroker.security.tls.authority import Authority
else:
    tls_authority = on_first_use("pylogbroker.security.tls.authority")

_AUTHORITY: Final = "ca.pem"
_AUTHORITY_KEY: Final = "ca.key"
_SECRET: Final = 0o600


@click.command("certificates", short_help="Make certificates to try TLS with.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1"),
    show_default=True,
    help="Host name or address of the broker, as clients connect to it; may be repeated.",
)
@click.option("--client", "clients", multiple=True, help="Name of a client that gets a certificate; may be repeated.")
@click.option("--days", default=365, show_default=True, type=click.IntRange(min=1), help="Time until they expire.")
def command(directory: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int) -> None:
    """Make an authority, and certificates for a broker and its clients, as PEM files in DIRECTORY.

    A later call with the same directory uses its authority, and adds certificates. Existing files are not changed.
    Keep ca.key secret: who has it can make certificates for any name.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    authority = _authority(directory, days)
    broker = directory / "broker.pem"
    if not broker.exists():
        _write(broker, authority.issue("broker", hosts, days).pem(), _SECRET)
    for name in clients:
        _write(_client_file(directory, name), authority.issue(name, days=days).pem(), _SECRET)
    click.echo(_broker_settings(broker, directory / _AUTHORITY, with_clients=bool(clients)))
    for name in clients or ("",):
        click.echo(_client_settings(directory, name))


def _authority(directory: Path, days: int) -> Authority:
    certificate, key = directory / _AUTHORITY, directory / _AUTHORITY_KEY
    if certificate.exists():
        return tls_authority.Authority.load(certificate.read_bytes(), key.read_bytes())
    made = tls_authority.Authority.create("pylogbroker", days)
    _write(key, made.identity.key_pem(), _SECRET)
    _write(certificate, made.identity.certificate_pem, 0o644)
    return made


def _client_file(directory: Path, name: str) -> Path:
    if not name.isprintable() or "/" in name or name in ("", ".", "..", "broker", "ca"):
        raise ConfigError(
            f"client: {name!r} is not accepted; expected a name that can be a file's, and not broker or ca"
        )
    return directory / f"{name}.pem"


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file, with its mode from the beginning; raise FileExistsError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)


def _broker_settings(broker: Path, authority: Path, *, with_clients: bool) -> str:
    lines = [
        "# the broker",
        "listeners=SSL://:9093",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={broker}",
    ]
    if with_clients:
        lines += [
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authority}",
            "ssl.client.auth=required",
        ]
    return "\n".join([*lines, ""])


def _client_settings(directory: Path, name: str) -> str:
    authority = directory / _AUTHORITY
    lines = [
        f"# the client {name}, User:CN={name}" if name else "# clients",
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority}",
    ]
    others = f"# librdkafka: ssl.ca.location={authority}"
    if name:
        file = _client_file(directory, name)
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={file}"]
        others += f" ssl.certificate.location={file} ssl.key.location={file}"
    return "\n".join([*lines, others, ""])
