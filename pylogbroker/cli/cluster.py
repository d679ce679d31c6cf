"""`pylogbroker cluster`."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import format_option, show
from pylogbroker.cli.topic import existing_topics

if TYPE_CHECKING:
    from pylogbroker.client.sync.admin import AdminClient

UNHEALTHY: Final = 10  # exit code, as rpk's


@click.group("cluster", short_help="Show brokers, features, disks and health.")
def command() -> None:
    """Show brokers, features, disks and health of a cluster."""


@command.command("info", short_help="Show brokers and controller.")
@cluster_options
@format_option
def info(connection: Connection, output: str) -> None:
    """Show brokers and controller."""
    with connection.admin() as admin:
        found = admin.cluster.describe()
    brokers = [
        {
            "broker": each.broker_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.broker_id == found.controller,
        }
        for each in found.brokers
    ]
    show({"cluster_id": found.cluster_id, "controller": found.controller, "brokers": brokers}, output, brokers)


@command.command("features", short_help="Show features with their levels.")
@cluster_options
@format_option
def features(connection: Connection, output: str) -> None:
    """Show features with the levels that a broker supports, and the one that the cluster has agreed on.

    Clusters with ZooKeeper may have none.
    """
    with connection.admin() as admin:
        found = admin.cluster.features()
    show(
        [
            {"feature": name, "lowest": each.lowest, "highest": each.highest, "finalized": each.finalized}
            for name, each in sorted(found.items())
        ],
        output,
    )


@command.command("log-dirs", short_help="Show log directories with their sizes.")
@cluster_options
@format_option
def log_dirs(connection: Connection, output: str) -> None:
    """Show the log directories of brokers, with their sizes in bytes."""
    with connection.admin() as admin:
        found = admin.replicas.log_dirs()
    rows = [
        {
            "broker": broker,
            "path": each.path,
            "replicas": len(each.replicas),
            "bytes": sum(replica.size for replica in each.replicas.values()),
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
            "error": None if each.error is None else each.error.code.name,
        }
        for broker, dirs in found.items()
        for each in dirs
    ]
    show(rows, output)


@command.command("health", short_help="Report what is wrong; exit with 10 if anything is.")
@cluster_options
@format_option
@click.pass_context
def health(context: click.Context, connection: Connection, output: str) -> None:
    """Report what is wrong with controller, partitions and disks.

    Exits with 0 if nothing is, with 10 if anything is, and with 1 if no broker answers.
    """
    with connection.admin() as admin:
        found = _health(admin)
    lists = [name for name in found if isinstance(found[name], list)]
    rows = {"healthy": found["healthy"], "controller": found["controller"], "brokers": found["brokers"]}
    show(found, output, {**rows, **{name: found[name] for name in lists}})  # type: ignore[arg-type]
    if not found["healthy"]:
        context.exit(UNHEALTHY)


def _health(admin: AdminClient) -> dict[str, Any]:
    cluster = admin.cluster.describe()
    names = [each.name for each in admin.topics.list(include_internal=True)]
    partitions = [
        (f"{topic.name}/{each.partition}", each)
        for topic in existing_topics(admin, names).values()
        for each in topic.partitions
    ]
    log_dirs = [(broker, each) for broker, dirs in admin.replicas.log_dirs().items() for each in dirs]
    failed = [f"{broker}: {each.path}: {each.error}" for broker, each in log_dirs if each.error is not None]
    no_space = os.strerror(errno.ENOSPC)
    full = [f"{broker}: {each.path}: {no_space}" for broker, each in log_dirs if each.usable_bytes == 0]
    without_leader = [name for name, each in partitions if each.leader is None]
    under_replicated = [name for name, each in partitions if len(each.isr) < len(each.replicas)]
    offline = [name for name, each in partitions if each.offline]
    problems = without_leader, under_replicated, offline, failed, full
    return {
        "healthy": cluster.controller is not None and not any(problems),
        "controller": cluster.controller,
        "brokers": len(cluster.brokers),
        "without_leader": without_leader,
        "under_replicated": under_replicated,
        "offline_replicas": offline,
        "failed_log_dirs": failed,
        "full_log_dirs": full,
    }
