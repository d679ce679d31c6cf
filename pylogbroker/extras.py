"""Extras: packages that optional features need, and the error that names them where they are missing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pylogbroker.errors import StartupError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = on_first_use("importlib.metadata")

EXTRAS: Final = {
    "duckdb": "tables",
    "fastavro": "registry",
    "google": "registry",
    "grpc_tools": "registry",
    "joserfc": "oauth",
    "jsonschema": "registry",
    "jsonschema_specifications": "registry",
    "keyring": "keyring",
    "puresasl": "sasl",
    "pyiceberg": "iceberg",
    "pyarrow": "spark",
    "pyspark": "spark",
    "referencing": "registry",
    "wsproto": "websocket",
    "yaml": "yaml",
}
"""Extras by the package that is imported."""


_PROJECTS: Final = {"google": "protobuf", "grpc_tools": "grpcio-tools", "puresasl": "pure-sasl", "yaml": "pyyaml"}
"""Names of projects that are not those of their packages."""


class MissingExtra(StartupError, ImportError):
    """An optional feature is used whose packages are not installed."""


@contextmanager
def required_by(feature: str, extra: str = "") -> Iterator[None]:
    """Raise MissingExtra for an import of an extra's package that fails; `extra` is the feature's own, if any."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(f"{feature} {missing(package, extra or EXTRAS[package])}") from error


def missing(package: str, extra: str) -> str:
    """Say that a package is needed which an extra installs, and how."""
    project = _PROJECTS.get(package, package)
    return f"needs {project}, which is not installed (extra {extra}): {_install(extra)}"


def _install(extra: str) -> str:
    """Return the command that installs an extra's requirements for this interpreter.

    Naming requirements, not the package, works for any kind of installation.
    """
    parts = (requirement.partition(";") for requirement in metadata.requires("pylogbroker") or ())
    names = [name.strip() for name, _, marker in parts if f'extra == "{extra}"' in marker.replace("'", '"')]
    return shlex.join([sys.executable, "-m", "pip", "install", *names])
