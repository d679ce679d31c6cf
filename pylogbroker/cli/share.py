"""`pylogbroker share`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_groups, complete_topics
from pylogbroker.cli.dead_letters import DeadLetter, dead_letter_topic, of_group
from pylogbroker.cli.group import SHARE, total_share_lag
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.partition_reader import PartitionReader
from pylogbroker.cli.resets import ResetTarget, reset_options
from pylogbroker.cli.topic import check_complete, existing_topics, offsets_at, partitions_of
from pylogbroker.cli.watching import views, watch_option
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client import settings as client_settings
    from pylogbroker.client import sync
    from pylogbroker.client.messages import Message
    from pylogbroker.interfaces import TopicPartition
    from pylogbroker.records import Header
else:
    admin_api = on_first_use("pylogbroker.client.admin")
    client_settings = on_first_use("pylogbroker.client.settings")
    sync = on_first_use("pylogbroker.client.sync")

_EMPTY: Final = "Empty"
_IN_TRANSACTION_MAX: Final = 500
_GAP_MAX: Final = 100  # of offsets that are read together
_SHOWN_BYTES_MAX: Final = 60
Place = tuple[str, int, int]
Content = tuple["bytes | None", "bytes | None", "Sequence[Header]"]


@click.group("share", short_help="Show share groups, set where they start, show and redrive their dead letters.")
def command() -> None:
    """Show share groups and their dead letters, and set where they start.

    Members of share groups (KIP-932) read the same partitions, record by record.
    """


@command.command("list", short_help="List share groups with their lag.")
@watch_option
@cluster_options
@format_option
def list_groups(watch: float | None, connection: Connection, output: str) -> None:
    """List share groups with their members and their lag over all partitions."""
    with connection.admin() as admin:
        for _ in views(watch):
            names = [group.group for group in admin.groups.list() if group.type == SHARE]
            groups = admin.share_groups.describe(names) if names else {}
            offsets = admin.share_groups.offsets(names) if names else {}
            rows = []
            for name, group in groups.items():
                rows.append(
                    {
                        "group": name,
                        "state": group.state,
                        "members": len(group.members),
                        "topics": sorted({topic for topic, _ in offsets[name]}),
                        "lag": total_share_lag(offsets[name]),
                    }
                )
            show(rows, output)


@command.command("describe", short_help="Show members of share groups and their partitions.")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@cluster_options
@format_option
def describe(groups: tuple[str, ...], connection: Connection, output: str) -> None:
    """Show members of share groups. Several members may have the same partition."""
    with connection.admin() as admin:
        described = admin.share_groups.describe(groups).values()
    rows = [
        {
            "group": group.group,
            "state": group.state,
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "topics": [*member.topics],
            "partitions": [f"{topic}/{number}" for topic, number in member.assignment],
        }
        for group in described
        for member in group.members
    ]
    for group in described:
        if not group.members:
            click.echo(f"Share group {group.group} is {group.state}: it has no members.", err=True)
    show(rows, output)


@command.command("lag", short_help="Show where share groups start, and their lag.")
@click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@watch_option
@cluster_options
@format_option
def lag(groups: tuple[str, ...], watch: float | None, connection: Connection, output: str) -> None:
    """Show where share groups, or all of them, start in each partition, and how many records they have to deliver.

    Records before the start are acknowledged, or dead.
    """
    with connection.admin() as admin:
        for _ in views(watch):
            names = groups or [group.group for group in admin.groups.list() if group.type == SHARE]
            offsets = admin.share_groups.offsets(names) if names else {}
            rows = [
                {
                    "group": group,
                    "topic": topic,
                    "partition": number,
                    "start": None if offset.start < 0 else offset.start,
                    "lag": offset.lag,
                }
                for group in names
                for (topic, number), offset in sorted(offsets[group].items())
            ]
            show(rows, output)


@command.command("reset", short_help="Set where a share group starts, with a preview.")
@click.argument("group", shell_complete=complete_groups)
@reset_options("that the group has")
@yes_option
@cluster_options
@format_option
def reset(
    group: str,
    topics: tuple[str, ...],
    target: ResetTarget,
    dry_run: bool,
    yes: bool,
    connection: Connection,
    output: str,
) -> None:
    """Set where a share group without members starts. What it knows of single records is forgotten."""
    with connection.admin() as admin:
        state = admin.share_groups.describe([group])[group].state
        before = admin.share_groups.offsets([group])[group]
        keys = partitions_of(admin, topics) if topics else sorted(before)
        if not keys:
            raise ConfigError(f"share group {group} has no partitions: name some by --topic")
        new, _ = target.offsets(admin, keys, {})
        rows = [
            {
                "group": group,
                "topic": topic,
                "partition": number,
                "old_start": before[topic, number].start if (topic, number) in before else None,
                "new_start": new.get((topic, number)),
            }
            for topic, number in keys
        ]
        show(rows, output)
        target.note_moved(new)
        if not dry_run:
            if state != _EMPTY:
                raise ConfigError(f"share group {group} is {state}: stop its members first")
            confirm(f"Set where share group {group} starts?", yes)
            admin.share_groups.alter_offsets(group, new)
    check_complete("not reset", keys, new)


@command.command("forget", short_help="Delete what a share group knows of topics.")
@click.argument("group", shell_complete=complete_groups)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@yes_option
@cluster_options
def forget(group: str, topics: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Delete what a share group without members knows of topics: it starts there by share.auto.offset.reset."""
    with connection.admin() as admin:
        confirm(f"Delete what share group {group} knows of {', '.join(topics)}?", yes)
        admin.share_groups.delete_offsets(group, topics)
    click.echo(f"Deleted what share group {group} knew of {', '.join(topics)}.", err=True)


def _letters_option(function: Any) -> Any:
    """Pass the topic of dead letters as `letters`."""
    return click.option(
        "--letters",
        metavar="TOPIC",
        shell_complete=complete_topics,
        help="Topic of the dead letters; by default that of the group's settings.",
    )(function)


@command.command("letters", short_help="Show dead letters of a share group.")
@click.argument("group", shell_complete=complete_groups)
@_letters_option
@click.option("--all", "everything", is_flag=True, help="Those that were sent again, too.")
@click.option("-n", "--count", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@cluster_options
@format_option
def show_letters(
    group: str, letters: str | None, everything: bool, count: int, connection: Connection, output: str
) -> None:
    """Show dead letters of a share group, the oldest first: records that were rejected, or delivered too often."""
    with connection.admin() as admin:
        topic = letters or dead_letter_topic(admin, group)
        starts, ends = _ranges(admin, group, topic, everything)
        rows = [
            {
                "topic": letter.topic,
                "partition": letter.partition,
                "offset": letter.offset,
                "deliveries": letter.delivery_count,
                "why": letter.why,
                "died_ms": letter.message.timestamp,
                "key": _text(letter.message.key) if letter.has_copy else None,
                "value": _text(letter.message.value) if letter.has_copy else None,
            }
            for letter in islice(_read(connection, admin, group, starts, ends), count)
        ]
    show(rows, output)
    if not rows:
        purpose = "" if everything else " to redrive"
        click.echo(f"Share group {group} has no dead letters in {topic}{purpose}.", err=True)


@command.command("redrive", short_help="Send the records of dead letters again.")
@click.argument("group", shell_complete=complete_groups)
@_letters_option
@click.option(
    "-t",
    "--topic",
    "targets",
    multiple=True,
    shell_complete=complete_topics,
    help="A topic that may be written to; may be repeated. Default: those that the group reads.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="At most so many, the oldest first.")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@yes_option
@cluster_options
def redrive(
    group: str,
    letters: str | None,
    targets: tuple[str, ...],
    count: int | None,
    dry_run: bool,
    yes: bool,
    connection: Connection,
) -> None:
    """Write the records of dead letters to the ends of their topics again, each once.

    All groups that read these topics get them, too. Records that the dead letters do not have are read from their
    topics. What was sent is committed by the group GROUP.redrive.
    """
    with connection.admin() as admin:
        topic = letters or dead_letter_topic(admin, group)
        starts, ends = _ranges(admin, group, topic, everything=False)
        origins = Counter(letter.topic for letter in islice(_read(connection, admin, group, starts, ends), count))
        total = sum(origins.values())
        _check_targets(admin, group, targets, origins)
        if dry_run or not total:
            click.echo(f"{counted(total, 'dead letter')} of share group {group} in {topic}.", err=True)
            return
        confirm(f"Write the records of {counted(total, 'dead letter')} to {', '.join(sorted(origins))} again?", yes)
        sender = _Sender(connection, admin, group, starts)
        sender.send(islice(_read(connection, admin, group, starts, ends), count))
    click.echo(f"Sent {counted(sender.sent, 'record')} again.", err=True)
    if sender.lost:
        raise ConfigError(
            f"{counted(len(sender.lost), 'record')} could not be sent, as the topic has deleted them and the dead"
            f" letters have no copies: {', '.join(sender.lost[:5])}"
        )


def _check_targets(admin: BlockingAdmin, group: str, targets: Iterable[str], origins: Iterable[str]) -> None:
    """Raise ConfigError unless all topics may be written to: the writer of a dead letter names its topic."""
    allowed = {*targets} or {topic for topic, _ in admin.share_groups.offsets([group])[group]}
    others = sorted({*origins} - allowed)
    if others:
        raise ConfigError(
            f"dead letters name topics that share group {group} does not read: {', '.join(others)}. If their records "
            "are to be written there again, allow each topic by --topic"
        )


class _Sender:
    """Sends records of dead letters, with their positions, in transactions."""

    def __init__(
        self, connection: Connection, admin: BlockingAdmin, group: str, positions: Mapping[TopicPartition, int]
    ) -> None:
        self._connection, self._admin, self._group = connection, admin, group
        self._positions = dict(positions)
        self.sent = 0
        self.lost: list[str] = []

    def send(self, letters: Iterator[DeadLetter]) -> None:
        settings = self._connection.settings(client_settings.PRODUCER)
        name = _redrive_group(self._group)
        with sync.Producer(
            settings=settings, transactional_id=name, acks="all", timeout=self._connection.seconds
        ) as producer:
            while chunk := [*islice(letters, _IN_TRANSACTION_MAX)]:
                contents = self._contents(chunk)
                with producer.transaction():
                    for letter, content in zip(chunk, contents, strict=True):
                        if content is not None:
                            key, value, headers = content
                            producer.submit(letter.topic, value, key, partition=letter.partition, headers=headers)
                        message = letter.message
                        self._positions[message.topic, message.partition] = message.next_offset
                    producer.send_offsets(self._positions, name)
                self.sent += sum(content is not None for content in contents)

    def _contents(self, letters: Sequence[DeadLetter]) -> list[Content | None]:
        """Return the records of dead letters, read from their topics if need be; None for one that is gone."""
        originals = self._originals({letter.place for letter in letters if not letter.has_copy})
        contents: list[Content | None] = []
        for letter in letters:
            message = letter.message if letter.has_copy else originals.get(letter.place)
            if message is None:
                self.lost.append(f"{letter.topic}/{letter.partition}@{letter.offset}")
                contents.append(None)
            else:
                headers = letter.headers if letter.has_copy else message.headers
                contents.append((message.key, message.value, headers))
        return contents

    def _originals(self, places: Collection[Place]) -> dict[Place, Message]:
        """Read records, neighbours together; those that are gone are left out."""
        topics = existing_topics(self._admin, {topic for topic, _, _ in places})
        keys = {place[:2] for place in places if place[0] in topics and place[1] < len(topics[place[0]].partitions)}
        ends = offsets_at(self._admin, sorted(keys), admin_api.LATEST)
        check_complete("records cannot be read", keys, ends)
        there = sorted(place for place in places if place[:2] in keys and place[2] < ends[place[:2]])
        originals: dict[Place, Message] = {}
        for key, group in groupby(there, key=lambda place: place[:2]):
            for first, last in _runs([offset for _, _, offset in group]):
                reader = PartitionReader(self._connection, self._admin, {key: first}, {key: last + 1})
                originals.update(((*key, message.offset), message) for message in reader.messages())
        return originals


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of offsets that are near each other; they ascend."""
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset > last + _GAP_MAX:
            yield first, last
            first = offset
        last = offset
    yield first, last


def _redrive_group(group: str) -> str:
    return f"{group}.redrive"


def _ranges(
    admin: BlockingAdmin, group: str, topic: str, everything: bool
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return where to begin in each partition of dead letters, and the ends."""
    keys = partitions_of(admin, [topic])
    ends = offsets_at(admin, keys, admin_api.LATEST)
    starts = offsets_at(admin, [*ends], admin_api.EARLIEST)
    check_complete("dead letters cannot be read", keys, starts)
    done = {} if everything else admin.groups.offsets(_redrive_group(group), keys)
    for key, committed in done.items():
        starts[key] = min(max(starts[key], committed.offset), ends[key])
    return starts, ends


def _read(
    connection: Connection,
    admin: BlockingAdmin,
    group: str,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Iterator[DeadLetter]:
    return of_group(PartitionReader(connection, admin, starts, ends).messages(), group)


def _text(content: bytes | None) -> str | None:
    if content is None:
        return None
    text = content.decode(errors="replace")
    return text if len(text) <= _SHOWN_BYTES_MAX else f"{text[:_SHOWN_BYTES_MAX]}..."
