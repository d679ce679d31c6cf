"""`pylogbroker cluster`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import format_option, show
from pylogbroker.cli.topic import all_topics
from pylogbroker.cli.watching import views, watch_option
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client.admin import ClusterDescription

_AUTHORIZATION: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_UNHEALTHY: Final = 10  # exit code, as rpk's
_LISTS_OF_PARTITIONS: Final = ("without_leader", "under_replicated", "offline_replicas")


@click.group("cluster", short_help="Show brokers, controllers, features, disks and health.")
def command() -> None:
    """Show brokers, controllers, features, disks and health of a cluster."""


def active_controller(admin: BlockingAdmin, cluster: ClusterDescription) -> int | None:
    """Return the active controller; of KRaft's controllers metadata knows nothing, and names any broker instead."""
    try:
        quorum = admin.cluster.quorum()
    except KafkaError as error:  # no controller answers
        return cluster.controller if error.code is _AUTHORIZATION else None
    return cluster.controller if quorum is None else quorum.leader


@command.command("info", short_help="Show brokers and controller.")
@cluster_options
@format_option
def info(connection: Connection, output: str) -> None:
    """Show brokers and controller."""
    with connection.admin() as admin:
        cluster = admin.cluster.describe()
        controller = active_controller(admin, cluster)
    brokers = [
        {
            "broker": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "controller": broker.broker_id == controller,
        }
        for broker in cluster.brokers
    ]
    show({"cluster_id": cluster.cluster_id, "controller": controller, "brokers": brokers}, output, brokers)


@command.command("quorum", short_help="Show KRaft's controllers: leader, voters, lag.")
@watch_option
@cluster_options
@format_option
def quorum(watch: float | None, connection: Connection, output: str) -> None:
    """Show the quorum of KRaft's controllers, and how far voters and brokers have read its metadata log.

    The leader is the active controller. Brokers are observers. The lag is the number of records that a node has not
    fetched. A cluster writes two records a second while it is idle, so a lag of one or two is none.
    """
    with connection.admin() as admin:
        for _ in views(watch):
            described = admin.cluster.quorum()
            if described is None:
                raise ConfigError(
                    "the cluster has no KRaft controllers: `pylogbroker cluster info` shows its controller"
                )
            members = [
                {
                    "node": member.node_id,
                    "role": member.role.value,
                    "address": member.address,
                    "log_end_offset": member.log_end_offset,
                    "lag": member.lag,
                    "last_fetch_ms": member.last_fetch_ms,
                    "last_caught_up_ms": member.last_caught_up_ms,
                }
                for member in described.members
            ]
            report = {
                "leader": described.leader,
                "leader_epoch": described.leader_epoch,
                "high_watermark": described.high_watermark,
                "members": members,
            }
            show(report, output, members)


@command.command("describe", short_help="Show what the cluster has: brokers, topics, groups, bytes.")
@cluster_options
@format_option
def describe(connection: Connection, output: str) -> None:
    """Show controller and numbers of brokers, topics, partitions, replicas and groups, and the bytes of all replicas.

    `broker describe` has more about brokers, and `cluster health` what is wrong.
    """
    with connection.admin() as admin:
        cluster = admin.cluster.describe()
        controller = active_controller(admin, cluster)
        topics = all_topics(admin)
        log_dirs = [directory for dirs in admin.replicas.log_dirs().values() for directory in dirs]
        groups = admin.groups.list()
    partitions = [partition for topic in topics for partition in topic.partitions]
    show(
        {
            "cluster_id": cluster.cluster_id,
            "controller": controller,
            "brokers": len(cluster.brokers),
            "topics": len(topics),
            "partitions": len(partitions),
            "replicas": sum(len(partition.replicas) for partition in partitions),
            "without_leader": sum(partition.leader is None for partition in partitions),
            "under_replicated": sum(len(partition.isr) < len(partition.replicas) for partition in partitions),
            "groups": len(groups),
            "bytes": sum(replica.size for directory in log_dirs for replica in directory.replicas.values()),
        },
        output,
    )


@command.command("features", short_help="Show features with their levels.")
@cluster_options
@format_option
def features(connection: Connection, output: str) -> None:
    """Show features with the levels that a broker supports, and the one that the cluster has agreed on.

    Clusters with ZooKeeper may have none.
    """
    with connection.admin() as admin:
        by_name = admin.cluster.features()
    show(
        [
            {"feature": name, "lowest": levels.lowest, "highest": levels.highest, "finalized": levels.finalized}
            for name, levels in sorted(by_name.items())
        ],
        output,
    )


@command.command("log-dirs", short_help="Show log directories with their sizes.")
@watch_option
@cluster_options
@format_option
def log_dirs(watch: float | None, connection: Connection, output: str) -> None:
    """Show the log directories of brokers, with their sizes in bytes."""
    with connection.admin() as admin:
        for _ in views(watch):
            by_broker = admin.replicas.log_dirs()
            rows = [
                {
                    "broker": broker,
                    "path": directory.path,
                    "replicas": len(directory.replicas),
                    "bytes": sum(replica.size for replica in directory.replicas.values()),
                    "total_bytes": directory.total_bytes,
                    "usable_bytes": directory.usable_bytes,
                    "error": None if directory.error is None else directory.error.code.name,
                }
                for broker, dirs in by_broker.items()
                for directory in dirs
            ]
            show(rows, output)


@command.command("health", short_help="Report what is wrong; exit with 10 if anything is.")
@cluster_options
@format_option
@click.pass_context
def health(context: click.Context, connection: Connection, output: str) -> None:
    """Report what is wrong with controller, brokers, partitions and disks.

    Exits with 0 if nothing is, with 10 if anything is, and with 1 if no broker answers.
    """
    with connection.admin() as admin:
        report = _health(admin)
    rows = {
        name: [*_by_topic(report[name])] if name in _LISTS_OF_PARTITIONS else value for name, value in report.items()
    }
    show(report, output, rows)  # type: ignore[arg-type]
    if not report["healthy"]:
        context.exit(_UNHEALTHY)


def _health(admin: BlockingAdmin) -> dict[str, Any]:
    # Disks first: while a broker that died counts as alive, the question about its disks waits.
    log_dirs = [(broker, directory) for broker, dirs in admin.replicas.log_dirs().items() for directory in dirs]
    topics = all_topics(admin)
    cluster = admin.cluster.describe()
    controller = active_controller(admin, cluster)
    partitions = [
        (f"{topic.name}/{partition.partition}", partition) for topic in topics for partition in topic.partitions
    ]
    alive = {broker.broker_id for broker in cluster.brokers}
    missing = sorted({broker for _, partition in partitions for broker in partition.replicas} - alive)
    failed = [
        f"{broker}: {directory.error}"  # which begins with the path
        for broker, directory in log_dirs
        if directory.error is not None
    ]
    no_space = os.strerror(errno.ENOSPC)
    full = [f"{broker}: {directory.path}: {no_space}" for broker, directory in log_dirs if directory.usable_bytes == 0]
    without_leader = [name for name, partition in partitions if partition.leader is None]
    under_replicated = [name for name, partition in partitions if len(partition.isr) < len(partition.replicas)]
    offline = [name for name, partition in partitions if partition.offline]
    problems = missing, without_leader, under_replicated, offline, failed, full
    return {
        "healthy": controller is not None and not any(problems),
        "controller": controller,
        "brokers": len(cluster.brokers),
        "missing_brokers": missing,
        "without_leader": without_leader,
        "under_replicated": under_replicated,
        "offline_replicas": offline,
        "failed_log_dirs": failed,
        "full_log_dirs": full,
    }


def _by_topic(partitions: Iterable[str]) -> Iterator[str]:
    """Yield the partitions of each topic as ranges: `orders/0-5`, `clicks/1`, `clicks/3-4`."""
    numbers = sorted((topic, int(number)) for topic, _, number in (name.rpartition("/") for name in partitions))
    for (topic, _), run in groupby(enumerate(numbers), key=lambda it: (it[1][0], it[1][1] - it[0])):
        members = [number for _, (_, number) in run]
        yield f"{topic}/{members[0]}" if len(members) == 1 else f"{topic}/{members[0]}-{members[-1]}"
