"""`pylogbroker broker`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster import active_controller
from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import escaped, format_option, show
from pylogbroker.cli.topic import all_topics
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from twisted.scripts import twistd

    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import BrokerDescription, BrokerMembership, TopicDescription
    from pylogbroker.client.admin.cluster_info import QuorumDescription
else:
    admin_api = on_first_use("pylogbroker.client.admin")
    twistd = on_first_use("twisted.scripts.twistd")

_CHANGED: Final = ("broker", "cluster")  # sources of settings that brokers keep, other than those of their files
_COLUMNS: Final = ("broker", "host", "port", "rack", "controller", "leaders", "replicas")
_MEMBERSHIP_COLUMNS: Final = ("state", "broker_epoch", "metadata_offset")


@click.group("broker", short_help="Start a broker, and describe those of a cluster.")
def command() -> None:
    """Start a broker, and describe those of a cluster."""


@command.command(
    "start",
    short_help="Run a broker in the foreground, until Ctrl-C.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def start(options: tuple[str, ...]) -> None:
    """Run a broker, or several with --brokers, in the foreground. OPTIONS are those of `twistd pylogbroker`."""
    streams = sys.stdout, sys.stderr
    sys.argv = ["twistd", "--nodaemon", "--pidfile=", "pylogbroker", *options]
    try:
        twistd.run()  # type: ignore[no-untyped-call]
    finally:
        sys.stdout, sys.stderr = streams  # twistd has made them its log; an error must not become a line of it


@command.command("describe", short_help="Show address, partitions, disks and settings of brokers.")
@click.argument("ids", nargs=-1, type=int, metavar="[BROKER]...")
@cluster_options
@format_option
def describe(ids: tuple[int, ...], connection: Connection, output: str) -> None:
    """Show address, partitions, log directories and settings of brokers; by default of all.

    In a cluster of KRaft controllers, also whether a broker is active or fenced, its epoch, and the offset up to which
    it has fetched the metadata. A fenced broker does not serve, and is not asked.

    The settings are those that were changed while brokers ran: `config describe broker` shows all.
    """
    with connection.admin() as admin:
        cluster = admin.cluster.describe()
        quorum = _quorum(admin)
        members = {} if quorum is None else admin.cluster.members()
        offsets = {} if quorum is None else _newest_offsets(quorum)
        brokers = {number: member.broker for number, member in members.items()}
        brokers |= {broker.broker_id: broker for broker in cluster.brokers}
        for number in ids:
            if number not in brokers:
                raise ConfigError(f"there is no broker {number}: there are {', '.join(map(str, sorted(brokers)))}")
        controller = active_controller(admin, cluster)
        topics = all_topics(admin)
        described = [
            {
                **_described(admin, brokers[number], topics, members.get(number)),
                "controller": number == controller,
                **_membership(members.get(number)),
                "metadata_offset": offsets.get(number),
            }
            for number in ids or sorted(brokers)
        ]
    columns = (*_COLUMNS, *(_MEMBERSHIP_COLUMNS if members else ()))
    rows = [
        {
            **{name: broker[name] for name in columns},
            "log_dirs": [_line_of(directory) for directory in broker["log_dirs"]],
        }
        for broker in described
    ]
    show(described, output, rows)
    for broker in described if output == "table" else ():
        for name, value in broker["configs"].items():
            click.echo(escaped(f"{broker['broker']}: {name}={value}"))


def _quorum(admin: BlockingAdmin) -> QuorumDescription | None:
    """Return the quorum of KRaft's controllers; None in other clusters, and without an answer."""
    try:
        return admin.cluster.quorum()
    except KafkaError:
        return None


def _newest_offsets(quorum: QuorumDescription) -> dict[int, int]:
    """Return the end offset of each node; of a broker whose directories are new, the former ones are listed, too."""
    by_time = sorted(quorum.members, key=lambda node: node.last_fetch_ms or 0)
    return {node.node_id: node.log_end_offset for node in by_time}


def _membership(member: BrokerMembership | None) -> dict[str, Any]:
    if member is None:
        return {"state": None, "broker_epoch": None}
    return {"state": "fenced" if member.is_fenced else "active", "broker_epoch": member.epoch}


def _described(
    admin: BlockingAdmin, broker: BrokerDescription, topics: list[TopicDescription], member: BrokerMembership | None
) -> dict[str, Any]:
    number = broker.broker_id
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "broker": number,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "leaders": sum(partition.leader == number for partition in partitions),
        "replicas": sum(number in partition.replicas for partition in partitions),
        "offline_replicas": sum(number in partition.offline for partition in partitions),
        **({"log_dirs": [], "configs": {}} if member and member.is_fenced else _of_broker(admin, number)),
    }


def _of_broker(admin: BlockingAdmin, number: int) -> dict[str, Any]:
    """Return what the broker itself says."""
    resource = admin_api.ConfigResource.broker(number)
    settings = admin.configs.describe([resource])[resource].values()
    return {
        "log_dirs": [
            {
                "path": directory.path,
                "bytes": sum(replica.size for replica in directory.replicas.values()),
                "usable_bytes": directory.usable_bytes,
                "error": None if directory.error is None else directory.error.code.name,
            }
            for directory in admin.replicas.log_dirs([number])[number]
        ],
        "configs": {setting.name: setting.value for setting in settings if setting.source in _CHANGED},
    }


def _line_of(directory: dict[str, Any]) -> str:
    return directory["path"] if directory["error"] is None else f"{directory['path']} ({directory['error']})"
