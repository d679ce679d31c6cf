"""Options of commands that work on a broker's files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker import config
    from pylogbroker.config import BrokerConfig, properties
else:
    config = on_first_use("pylogbroker.config")
    properties = on_first_use("pylogbroker.config.properties")


def broker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the broker's settings as `config`; options are those of `twistd pylogbroker`."""

    @click.option("-c", "--config", "file", metavar="FILE", help="The broker's properties file.")
    @click.option("-d", "--data-dir", metavar="DIR", help="The broker's data directory; overrides log.dirs.")
    @click.option("-o", "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting of the broker.")
    @functools.wraps(function)
    def with_config(
        *arguments: Any, file: str | None, data_dir: str | None, overrides: tuple[str, ...], **others: Any
    ) -> Any:
        if file is None and data_dir is None:
            raise click.UsageError("give --config or --data-dir to name the broker's files")
        return function(*arguments, config=broker_settings(file, data_dir, overrides), **others)

    return with_config


def broker_settings(file: str | None, data_dir: str | None, overrides: tuple[str, ...]) -> BrokerConfig:
    """Return the settings of a broker whose files options name."""
    if data_dir is not None and "," in data_dir:
        raise ConfigError(f"data-dir: {data_dir!r} is not accepted; expected one directory: log.dirs takes several")
    read = {} if file is None else properties.read(file)
    given = {} if data_dir is None else {"log.dirs": data_dir}
    return config.BrokerConfig(read | given | properties.parse_assignments(overrides))
