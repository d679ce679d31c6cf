"""`pylogbroker migrate`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from pylogbroker.cli.broker_options import broker_options
from pylogbroker.cli.progress import progress_bar
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig, properties
    from pylogbroker.offline import dry_run as offline_dry_run
    from pylogbroker.offline import kafka07_import, registry_import
    from pylogbroker.offline import registry as offline_registry
    from pylogbroker.offline import stopped_broker as offline_stopped_broker
    from pylogbroker.offline import zookeeper as offline_zookeeper
    from pylogbroker.offline.kafka07_import import Kafka07LogDirectory, Kafka07Partition, TopicPlan
else:
    kafka07_import = on_first_use("pylogbroker.offline.kafka07_import")
    offline_dry_run = on_first_use("pylogbroker.offline.dry_run")
    offline_registry = on_first_use("pylogbroker.offline.registry")
    offline_stopped_broker = on_first_use("pylogbroker.offline.stopped_broker")
    offline_zookeeper = on_first_use("pylogbroker.offline.zookeeper")
    properties = on_first_use("pylogbroker.config.properties")
    registry_import = on_first_use("pylogbroker.offline.registry_import")

_DAMAGED: Final = 10  # exit code, as that of verify


@click.group("migrate", short_help="Import Kafka 0.7 data, and topics and offsets from ZooKeeper.")
def command() -> None:
    """Import Kafka 0.7 data, and topics and offsets from ZooKeeper.

    The broker must not run. The sources are never changed.
    """


@command.command("kafka07", short_help="Import log directories of Kafka 0.7.")
@click.argument("sources", nargs=-1, required=True, metavar="[BROKER=]DIRECTORY...")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@click.option("--link", is_flag=True, help="Hard-link segments instead of copying; needs the same file system.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the imported topics.")
@click.option("--dry-run", is_flag=True, help="Check everything, write nothing.")
@broker_options
@click.pass_context
def kafka07(
    context: click.Context,
    sources: tuple[str, ...],
    topics: tuple[str, ...],
    link: bool,
    settings: tuple[str, ...],
    dry_run: bool,
    config: BrokerConfig,
) -> None:
    """Import log directories of Kafka 0.7.

    Every message's CRC is checked. Offsets (byte positions) do not change. A directory's BROKER is the `brokerid` in
    its server.properties (default 0); consumer offsets refer to it.

    Imported topics keep all records until their retention.ms and retention.bytes are set. Exits with 10 if a partition
    is damaged: the messages before the damage are imported.
    """
    offline_stopped_broker.check_own_metadata(config)
    offline_stopped_broker.check_stopped(config)
    chosen = properties.parse_assignments(settings)
    damaged: list[str] = []

    def show_partition(partition: Kafka07Partition, number: int) -> None:
        _show(partition, number)
        if partition.damage or partition.unreadable:
            damaged.append(partition.path)

    plans = kafka07_import.plan_topics(
        [_source(text) for text in sources], lambda name: not topics or name in topics, show_partition
    )
    if dry_run:
        click.echo("Nothing was written.")
    else:
        _import_kafka07(config, plans, chosen, link)
    if damaged:
        click.echo(f"{len(damaged)} partition(s) are damaged: {', '.join(damaged)}", err=True)
        context.exit(_DAMAGED)


def _import_kafka07(config: BrokerConfig, plans: list[TopicPlan], chosen: Mapping[str, str], link: bool) -> None:
    with offline_stopped_broker.stopped_broker(config) as broker:
        importing = kafka07_import.Kafka07Import(broker, chosen, link=link)
        for path in importing.clean_up():
            click.echo(f"removed {path}: left over from an unfinished import")
        planned, done = importing.check(plans)
        by_name = {plan.name: plan for plan in plans}
        for planned_topic in planned:
            topic = planned_topic.topic
            plan = by_name[topic.name]
            with progress_bar(f"Importing {topic.name}", partial(importing.bytes_to_copy, plan)) as advance:
                importing.run(planned_topic, plan, advance)
            click.echo(f"imported {topic.name}, {len(topic.partitions)} partition(s)")
        for name in done:
            click.echo(f"skipped {name}: it was imported before")
        with broker.loaded_logs(_found):
            pass


@command.command("zookeeper", short_help="Import topics and committed offsets from ZooKeeper.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--chroot", default="", metavar="PATH", help="Root of Kafka's nodes: the path in zookeeper.connect.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only this group; may be repeated.")
@click.option("--replace", is_flag=True, help="Replace offsets that groups have committed to this broker.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported, write nothing.")
@broker_options
def zookeeper(
    sources: tuple[str, ...],
    chroot: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    replace: bool,
    dry_run: bool,
    config: BrokerConfig,
) -> None:
    """Import topics and committed offsets from ZooKeeper.

    A SOURCE is ZooKeeper's dataDir or dataLogDir, a snapshot, a dump (see docs/migration.md), or HOST:PORT of a running
    server. Existing topics stay unchanged; others are created empty. Import the logs of Kafka 0.7 first: offsets
    outside of their logs are skipped.
    """
    offline_stopped_broker.check_own_metadata(config)
    offline_stopped_broker.check_stopped(config)
    registry = offline_registry.read_registry(offline_zookeeper.read_nodes(sources, chroot, _warn))
    for problem in registry.problems:
        _warn(f"skipped {problem}")
    selected = [topic for name, topic in registry.topics.items() if not topics or name in topics]
    offsets = [
        offset
        for offset in registry.offsets
        if (not topics or offset.topic in topics) and (not groups or offset.group in groups)
    ]
    if dry_run:
        for topic in selected:
            click.echo(f"topic {topic.name}, {topic.partitions} partition(s){' of Kafka 0.7' * bool(topic.origins)}")
        for offset in offsets:
            click.echo(f"group {offset.group}, {offset.topic} {offset.place}: {offset.offset}")
        with offline_dry_run.dry_run(config) as rehearsed:
            importing = registry_import.RegistryImport(rehearsed.broker, click.echo)
            made = importing.make_topics(selected)
            with rehearsed.broker.loaded_logs(lambda _: None) as logs:
                for new in made:
                    rehearsed.broker.make_logs(new)
                importing.commit(offsets, {**logs, **rehearsed.ranges}, replace=replace)
        click.echo("Nothing was written.")
        return
    with offline_stopped_broker.stopped_broker(config) as broker:
        importing = registry_import.RegistryImport(broker, click.echo)
        made = importing.make_topics(selected)
        with broker.loaded_logs(_found) as logs:
            for new in made:
                broker.make_logs(new)
            importing.commit(offsets, logs, replace=replace)


def _warn(text: str) -> None:
    click.echo(text, err=True)


def _source(text: str) -> Kafka07LogDirectory:
    match = re.fullmatch(r"(\d{1,9})=(.+)", text, re.ASCII)
    return (
        kafka07_import.Kafka07LogDirectory(int(match[1]), match[2])
        if match
        else kafka07_import.Kafka07LogDirectory(0, text)
    )


def _show(partition: Kafka07Partition, number: int) -> None:
    size = partition.end - partition.start
    click.echo(
        f"{partition.path}: {partition.messages} message(s), positions {partition.start} to {partition.end} "
        f"({size} bytes), becomes {partition.topic}-{number}"
    )
    if partition.damage:
        click.echo(f"  {partition.left_out} bytes are skipped, {partition.damage}", err=True)
    for position in partition.unreadable:
        click.echo(f"  the compressed message at {position} cannot be read: readers will stop there", err=True)


def _found(finding: object) -> None:
    click.echo(str(finding))
