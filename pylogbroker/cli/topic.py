"""`pylogbroker topic`."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.arguments import assignments, partitions
from pylogbroker.cli.cluster_names import complete_settings, delete_option, set_option
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics
from pylogbroker.cli.output import confirm, escaped, format_option, note, show, yes_option
from pylogbroker.cli.units import without_units
from pylogbroker.cli.watching import RatesBetweenViews, readable_rate, readable_size, views, watch_option
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.cli import remote_storages
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client import errors as client_errors
    from pylogbroker.client.admin import CreatedTopic, ListedOffset, NewTopic, TopicDescription
    from pylogbroker.config import parsing, times
    from pylogbroker.interfaces import TopicPartition
else:
    remote_storages = on_first_use("pylogbroker.cli.remote_storages")
    admin_api = on_first_use("pylogbroker.client.admin")
    client_errors = on_first_use("pylogbroker.client.errors")
    parsing = on_first_use("pylogbroker.config.parsing")
    times = on_first_use("pylogbroker.config.times")

_CREATED_TOGETHER: Final = 100
_PROPAGATION_SECONDS: Final = 0.5
_LOOK_AGAIN_SECONDS: Final = 0.1
_SIZES_SECONDS: Final = 5.0  # in which brokers must have answered, or the list comes without sizes


@click.group("topic", short_help="List, create, describe, alter, delete and trim topics.")
def command() -> None:
    """List, create, describe, alter, delete and trim topics of a running cluster."""


@command.command("list", short_help="List topics.")
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@watch_option
@cluster_options
@format_option
def list_topics(internal: bool, watch: float | None, connection: Connection, output: str) -> None:
    """List topics with their numbers of partitions and replicas, and their sizes, without copies by replicas.

    With --watch, the table shows how fast they grow.
    """
    rates = RatesBetweenViews()
    with connection.admin() as admin:
        for _ in views(watch):
            names = [topic.name for topic in admin.topics.list(include_internal=internal)]
            topics = existing_topics(admin, names)
            sizes = _sizes(admin, topics) if topics else {}
            rate = rates.of(sizes)
            rows = [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
                    "under_replicated": sum(len(one.isr) < len(one.replicas) for one in topic.partitions),
                    "internal": topic.is_internal,
                    "bytes": sizes.get(topic.name),
                    "bytes_per_second": rate(topic.name),
                }
                for topic in topics.values()
            ]
            show(rows, output, [_with_readable_sizes(row, with_rate=watch is not None) for row in rows])
            if not rows:
                connection.note_hidden(admin, "Topics")


def _sizes(admin: BlockingAdmin, topics: Mapping[str, TopicDescription]) -> dict[str, int | None]:
    """Return the bytes of each topic at its leaders; nothing for a user who may not see log directories."""
    try:
        by_broker = admin.replicas.log_dirs(timeout=_SIZES_SECONDS)
    except PylogbrokerError as error:
        note(f"Sizes are not shown: {error}")
        return {}
    replicas = {
        (broker, key): replica.size
        for broker, dirs in by_broker.items()
        for directory in dirs
        for key, replica in directory.replicas.items()
        if not replica.is_future
    }
    if not replicas:
        return {}
    return {
        name: sum(
            replicas.get((one.leader, (name, one.partition)), 0) for one in topic.partitions if one.leader is not None
        )
        for name, topic in topics.items()
    }


def _with_readable_sizes(row: Mapping[str, Any], *, with_rate: bool) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if not name.startswith("bytes")}
    shown["size"] = readable_size(row["bytes"])
    return {**shown, "growth": readable_rate(row["bytes_per_second"])} if with_rate else shown


@command.command("create", short_help="Create topics.")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-p", "--partitions", "count", type=click.IntRange(1), help="Default: the broker's num.partitions.")
@click.option("-r", "--replication-factor", "replicas", type=click.IntRange(1), help="Default: the broker's.")
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_settings,
    help="A setting of the topics.",
)
@click.option("--if-not-exists", is_flag=True, help="No error for topics that exist.")
@click.option("--validate-only", is_flag=True, help="Only check whether the topics could be created.")
@cluster_options
@format_option
def create(
    names: tuple[str, ...],
    count: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    connection: Connection,
    output: str,
) -> None:
    """Create topics."""
    settings = without_units(assignments(configs, "--config"))
    with connection.admin() as admin:
        if if_not_exists:
            existing = {topic.name for topic in admin.topics.list(include_internal=True)}
            names = tuple(name for name in names if name not in existing)
        topics = [admin_api.NewTopic(name, count or -1, replicas or -1, configs=settings) for name in names]
        made, failed = _create_all(admin, topics, validate_only=validate_only)
    if if_not_exists:  # another may have created a topic meanwhile
        failed = [error for error in failed if not _is_there_already(error)]
    rows = [
        {"topic": topic.name, "partitions": topic.partitions, "replication_factor": topic.replication_factor}
        for topic in made
    ]
    if rows or not failed:
        show(rows, output)
    if failed:
        if len(topics) == 1:
            raise failed[0]
        for error in dict.fromkeys(map(str, failed)):
            note(error)
        unanswered = sum(map(_is_of_connection, failed))
        fate = f"; some of the last {unanswered} may have been, as no answer came" if unanswered else ""
        raise ConfigError(f"{len(topics) - len(made)} of {counted(len(topics), 'topic')} were not created{fate}")


def _is_there_already(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS


def _create_all(
    admin: BlockingAdmin, topics: Sequence[NewTopic], *, validate_only: bool
) -> tuple[list[CreatedTopic], list[Exception]]:
    """Create topics, with some in each request; return those that were created, and the errors of others.

    Topics after a request that failed as a whole, or was not answered, are not tried.
    """
    made: list[CreatedTopic] = []
    failed: list[Exception] = []
    terminal = sys.stderr if len(topics) > _CREATED_TOGETHER and sys.stderr.isatty() else StringIO()
    with click.progressbar(length=len(topics), label="Creating topics", file=terminal) as bar:
        for start in range(0, len(topics), _CREATED_TOGETHER):
            some = topics[start : start + _CREATED_TOGETHER]
            try:
                made += admin.topics.create(some, validate_only=validate_only).values()
            except admin_api.ItemsFailed as error:
                made += error.results.values()
                failed += error.errors.values()
                if all(map(_is_of_connection, error.errors.values())):
                    break
            except PylogbrokerError as error:
                failed.append(error)
                if len(some) > 1:
                    break
            bar.update(len(some))
    return made, failed


def _is_of_connection(error: Exception) -> bool:
    return isinstance(error, client_errors.ClientError)


@command.command("describe", short_help="Show partitions, replicas, offsets and settings of topics.")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@cluster_options
@format_option
def describe(names: tuple[str, ...], connection: Connection, output: str) -> None:
    """Show partitions, replicas, offsets and settings of topics.

    The settings are those that differ from the defaults. Records of an archived topic before the local start offset
    are in the remote storage. Brokers with replicas of it that have no remote storage, or another one, are named.
    """
    with connection.admin() as admin:
        topics = [_described(admin, topic) for topic in described_topics(admin, names).values()]
    rows = [
        {"topic": topic["topic"], **{name: value for name, value in partition.items() if name != "leader_epoch"}}
        for topic in topics
        for partition in topic["partitions"]
    ]
    show(topics, output, rows)
    for topic in topics if output == "table" else ():
        for name, value in topic["configs"].items():
            click.echo(escaped(f"{topic['topic']}: {name}={value}"))
        for problem in topic.get("problems", ()):
            click.echo(escaped(f"{topic['topic']}: {problem}"))


def _described(admin: BlockingAdmin, topic: TopicDescription) -> dict[str, Any]:
    led = [(topic.name, partition.partition) for partition in topic.partitions if partition.leader is not None]
    first = admin.records.offsets(dict.fromkeys(led, admin_api.EARLIEST))
    end = admin.records.offsets(dict.fromkeys(led, admin_api.LATEST))
    resource = admin_api.ConfigResource.topic(topic.name)
    configs = admin.configs.describe([resource])[resource]
    is_archived = any(name == "remote.storage.enable" and row.value == "true" for name, row in configs.items())
    local = admin.records.offsets(dict.fromkeys(led, admin_api.EARLIEST_LOCAL)) if is_archived else {}
    problems: list[str] = []
    if is_archived:
        replicas = {broker for partition in topic.partitions for broker in partition.replicas}
        problems += remote_storages.problems(replicas, remote_storages.remote_storages(admin, replicas))
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline": list(partition.offline),
                "start_offset": first[topic.name, partition.partition].offset if partition.leader is not None else None,
                **({"local_start_offset": local[key].offset if key in local else None} if is_archived else {}),
                "end_offset": end[topic.name, partition.partition].offset if partition.leader is not None else None,
            }
            for partition in topic.partitions
            for key in [(topic.name, partition.partition)]
        ],
        "configs": {setting.name: setting.value for setting in configs.values() if setting.source == "topic"},
        **({"problems": problems} if is_archived else {}),
    }


@command.command("alter", short_help="Change settings of topics.")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@set_option
@delete_option
@cluster_options
def alter(names: tuple[str, ...], changed: tuple[str, ...], deleted: tuple[str, ...], connection: Connection) -> None:
    """Change settings of topics. `config describe` shows them."""
    if not changed and not deleted:
        raise click.UsageError("give --set NAME=VALUE, or --delete NAME")
    changes = [
        *(
            admin_api.SettingChange(name, admin_api.ConfigOperation.SET, value)
            for name, value in without_units(assignments(changed, "--set")).items()
        ),
        *(admin_api.SettingChange(name, admin_api.ConfigOperation.DELETE) for name in deleted),
    ]
    with connection.admin() as admin, known_topics(admin, names):
        admin.configs.alter({admin_api.ConfigResource.topic(name): changes for name in names})
    click.echo(f"Changed {counted(len(changes), 'setting')} of {', '.join(names)}.", err=True)


@command.command("delete", short_help="Delete topics with their records.")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@yes_option
@cluster_options
def delete(names: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Delete topics with their records."""
    with connection.admin() as admin:
        described_topics(admin, names)
        confirm(f"Delete {', '.join(names)} with all records?", yes)
        admin.topics.delete(names)
    click.echo(f"Deleted {', '.join(names)}.", err=True)


@command.command("add-partitions", short_help="Raise the number of partitions of a topic.")
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.argument("total", type=click.IntRange(1))
@yes_option
@cluster_options
def add_partitions(name: str, total: int, yes: bool, connection: Connection) -> None:
    """Raise the number of partitions of a topic to TOTAL.

    Records with a key may then go to other partitions than before.
    """
    with connection.admin() as admin:
        count = len(described_topics(admin, [name])[name].partitions)
        confirm(f"Raise the partitions of {name} from {count} to {total}? Keys may change their partition.", yes)
        admin.topics.add_partitions({name: total})
    click.echo(f"{name} has {counted(total, 'partition')}.", err=True)


@command.command("trim", short_help="Delete the oldest records of topics.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option("--before-offset", type=click.IntRange(0), help="Delete records below this offset.")
@click.option("--before-time", metavar="TIME", help="Delete those before: 2023-11-14T22:13:20Z, 12h (ago), ms.")
@click.option("--all", "everything", is_flag=True, help="Delete all records that there are now.")
@yes_option
@cluster_options
@format_option
def trim(
    topics: tuple[str, ...],
    before_offset: int | None,
    before_time: str | None,
    everything: bool,
    yes: bool,
    connection: Connection,
    output: str,
) -> None:
    """Delete the oldest records of topics, or of some partitions."""
    if (before_offset is not None) + (before_time is not None) + everything != 1:
        raise click.UsageError("give one of --before-offset, --before-time and --all")
    since = times.milliseconds("--before-time", before_time)
    with connection.admin() as admin:
        keys = partitions_of(admin, topics)
        ends = offsets_at(admin, keys, admin_api.LATEST)
        first = offsets_at(admin, [key for key in keys if key in ends], admin_api.EARLIEST)
        target = {key: ends[key] for key in first}
        if before_offset is not None:
            target = {key: min(before_offset, end) for key, end in target.items()}
        elif since is not None:
            offsets = admin.records.offsets(dict.fromkeys(target, since))
            target = {key: offsets[key].or_end(end) for key, end in target.items()}
        target = {key: max(offset, first[key]) for key, offset in target.items()}
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "start_offset": first.get((topic, partition)),
                "new_start_offset": target.get((topic, partition)),
                "records": target[topic, partition] - first[topic, partition] if (topic, partition) in target else None,
            }
            for topic, partition in sorted(keys)
        ]
        show(rows, output)
        confirm("Delete the records below the new start offsets?", yes)
        admin.records.delete(target)
    check_complete("not trimmed", keys, target)


def create_if_missing(admin: BlockingAdmin, name: str) -> None:
    """Create a topic with the broker's defaults, unless there is one."""
    try:
        admin.topics.create([admin_api.NewTopic(name)])
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def wait_for_topics(admin: BlockingAdmin, topics: Iterable[str]) -> None:
    """Wait for half a second for topics that are missing: they may have been created just now.

    Raise the error of those that stay missing.
    """
    names = [*topics]
    until = time.monotonic() + _PROPAGATION_SECONDS
    while len(existing_topics(admin, names)) < len(names) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_SECONDS)
    described_topics(admin, names)


def described_topics(admin: BlockingAdmin, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """Describe topics; raise KafkaError, which names similar topics, for those that are missing."""
    requested = [*names]
    with known_topics(admin, requested):
        return admin.topics.describe(requested)


@contextmanager
def known_topics(admin: BlockingAdmin, names: Iterable[str]) -> Iterator[None]:
    """Name similar topics in the error for those that are missing."""
    try:
        yield
    except PylogbrokerError as error:
        errors = error.errors.values() if isinstance(error, admin_api.ItemsFailed) else [error]
        if any(map(_is_missing, errors)):
            topics = [topic.name for topic in admin.topics.list(include_internal=True)]
            missing = [name for name in names if name not in topics]
            if missing:
                text = "; ".join(no_such("topic", name, topics) for name in missing)
                raise KafkaError(text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error
        raise


def no_such(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the text of an error for a name that is missing, with a similar one."""
    near = parsing.closest(name, names)
    return f"there is no {kind} {name}" + (f": did you mean {near}?" if near else "")


def partitions_of(admin: BlockingAdmin, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of texts `TOPIC` or `TOPIC:PARTITION,...`. Raise ConfigError for one that is missing."""
    selection = partitions(topics, "TOPIC")
    described = described_topics(admin, selection)
    for topic, numbers in selection.items():
        count = len(described[topic].partitions)
        for number in numbers or ():
            if number >= count:
                raise ConfigError(f"topic {topic} has no partition {number}: its last one is {count - 1}")
    return [
        (topic, number)
        for topic, numbers in selection.items()
        for number in (numbers if numbers is not None else range(len(described[topic].partitions)))
    ]


def existing_topics(admin: BlockingAdmin, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """Describe those topics that still exist: others may have been deleted since they were listed."""
    try:
        topics: Mapping[str, TopicDescription] = admin.topics.describe(names)
    except admin_api.ItemsFailed as failed:
        if not all(_is_missing(error) for error in failed.errors.values()):
            raise
        topics = failed.results
    except KafkaError as error:
        if not _is_missing(error):
            raise
        topics = {}
    return topics


def all_topics(admin: BlockingAdmin) -> list[TopicDescription]:
    """Describe all topics, internal ones too."""
    names = [topic.name for topic in admin.topics.list(include_internal=True)]
    return [*existing_topics(admin, names).values()]


def _is_missing(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offsets_at(admin: BlockingAdmin, keys: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """Return the offsets of partitions at a time. Those whose leader does not answer are reported, and left out."""
    pairs = [*keys]
    topics = existing_topics(admin, {topic for topic, _ in pairs})
    led = []
    for topic, number in pairs:
        partitions = topics[topic].partitions if topic in topics else ()
        if number < len(partitions) and partitions[number].leader is None:
            click.echo(f"{topic}/{number} has no leader now", err=True)  # a request would wait for one
        else:
            led.append((topic, number))
    try:
        offsets = admin.records.offsets(dict.fromkeys(led, time))
    except admin_api.ItemsFailed as failed:
        for error in dict.fromkeys(map(str, failed.errors.values())):
            note(error)
        offsets = failed.results
    except PylogbrokerError as error:
        if len(led) > 1 or not client_errors.is_retriable(error):
            raise
        note(error)
        offsets = {}
    return known_offsets(offsets)


def known_offsets(offsets: Mapping[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    """Return the offsets that are known, as those of a log's ends always are."""
    return {key: listed.offset for key, listed in offsets.items() if listed.offset is not None}


def check_complete(problem: str, partitions: Iterable[TopicPartition], done: Container[TopicPartition]) -> None:
    """Raise KafkaError if partitions were left out."""
    missing = [f"{topic}/{number}" for topic, number in sorted(partitions) if (topic, number) not in done]
    if missing:
        raise KafkaError(
            f"{problem}: {', '.join(missing)}: their leaders do not answer", ErrorCode.LEADER_NOT_AVAILABLE
        )
