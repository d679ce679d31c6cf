"""Completion of transactional ids, users, brokers and settings by the names that a cluster has; options of settings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pylogbroker.cli.cluster_options import complete_from_cluster, complete_groups, complete_names, complete_topics
from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.cli import group_names, name_queries
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import ConfigResource
    from pylogbroker.config import topic_settings
    from pylogbroker.offline import users as offline_users
else:
    group_names = on_first_use("pylogbroker.cli.group_names")
    name_queries = on_first_use("pylogbroker.cli.name_queries")
    admin_api = on_first_use("pylogbroker.client.admin")
    offline_users = on_first_use("pylogbroker.offline.users")
    topic_settings = on_first_use("pylogbroker.config.topic_settings")


def complete_transactional_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return complete_names(context, incomplete, lambda: group_names.transactional_ids)


def complete_users(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return users of the cluster, or of the file that `--file` names."""
    file = context.params.get("users_file")
    if file is not None:
        return _users_in(file, incomplete)

    def names(admin: BlockingAdmin) -> Iterable[str]:
        return sorted(admin.users.describe())

    return complete_from_cluster(context, incomplete, names)


def _users_in(file: Path, incomplete: str) -> list[str]:
    try:
        return [name for name in sorted(offline_users.UsersFile(file).names()) if name.startswith(incomplete)]
    except Exception:
        return []  # a shell has no place for errors


def complete_config_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return topics, groups, or numbers of brokers, as the argument KIND before says."""
    if context.params.get("kind") == "topic":
        return complete_topics(context, parameter, incomplete)
    if context.params.get("kind") == "group":
        return complete_groups(context, parameter, incomplete)

    return complete_names(context, incomplete, lambda: name_queries.brokers)


def complete_settings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return names of settings, with the `=` that NAME=VALUE needs.

    They are those of the topic, group or broker in the arguments before; without one, this broker's settings of topics.
    """
    end = "=" if "=" in str(parameter.metavar) else ""
    resource = _resource(context)
    if resource is None:
        return [setting.name + end for setting in topic_settings.TOPIC_SETTINGS if setting.name.startswith(incomplete)]

    def names(admin: BlockingAdmin) -> list[str]:
        target = resource
        if not target.name:  # the defaults of all brokers, which list only what is set
            target = type(target).broker(admin.cluster.describe().brokers[0].broker_id)
        return [name + end for name in sorted(admin.configs.describe([target])[target])]

    return complete_from_cluster(context, incomplete, names)


def _resource(context: click.Context) -> ConfigResource | None:
    # click leaves arguments here, not in `params`, while an option lacks its value
    words = context.args
    noun = context.parent.info_name if context.parent else None
    kind = "topic"
    if noun == "config" and words:
        kind, *words = words
    if kind == "broker":
        return admin_api.ConfigResource.broker(int(words[0]) if words and is_digits(words[0]) else None)
    if kind == "group" and words:
        return admin_api.ConfigResource.group(words[0])
    return admin_api.ConfigResource.topic(words[0]) if words and context.info_name != "create" else None


set_option = click.option(
    "-s",
    "--set",
    "changed",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_settings,
    help="Set a setting.",
)
delete_option = click.option(
    "-d",
    "--delete",
    "deleted",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_settings,
    help="Return a setting to its default.",
)
