"""`pylogbroker group`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_groups, complete_topics
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.resets import ResetTarget, reset_options
from pylogbroker.cli.topic import check_complete, existing_topics, no_such, offsets_at, partitions_of
from pylogbroker.cli.watching import RatesBetweenViews, views, watch_option
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import GroupListing, ShareGroupOffset
    from pylogbroker.interfaces import TopicPartition
else:
    admin_api = on_first_use("pylogbroker.client.admin")

_UNKNOWN = "Dead"
_NO_MEMBERS = ("Empty", _UNKNOWN)
SHARE: Final = "share"
_CLASSIC = "classic"
_OF_KIP_848 = "consumer"
_MEMBER_COLUMNS = ("member", "instance", "client", "host", "partitions", "epoch", "target", "topics", "expression")
_ONLY_OF_KIP_848 = ("epoch", "subscription", "target")
"""Columns of a table that groups of the classic protocol leave empty."""
_ONLY_OF_STREAMS = ("process", "tasks", "standby_tasks")
"""Columns of members of Kafka Streams."""
_STREAMS: Final = "streams"
_TYPES: Final = (_CLASSIC, _OF_KIP_848, SHARE, _STREAMS)


@click.group("group", short_help="List groups, show their lag, reset and delete offsets.")
def command() -> None:
    """List groups, show their members and lag, reset and delete their offsets."""


@command.command("list", short_help="List groups.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this state, such as Stable or Empty.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(_TYPES, case_sensitive=False),
    help="Only this type: classic, consumer (KIP-848), share or streams (KIP-1071).",
)
@click.option("--lag", "with_lag", is_flag=True, help="The lag of each group, over all its partitions.")
@watch_option
@cluster_options
@format_option
def list_groups(
    states: tuple[str, ...],
    types: tuple[str, ...],
    with_lag: bool,
    watch: float | None,
    connection: Connection,
    output: str,
) -> None:
    """List groups. With --lag and --watch, the table shows how fast each lag grows or shrinks."""
    rates = RatesBetweenViews()
    with connection.admin() as admin:
        for _ in views(watch):
            groups = admin.groups.list(states=states, types=types)
            lags = {group.group: _lag_of(admin, group) for group in groups} if with_lag else {}
            rate = rates.of(lags)
            rows = [
                {
                    "group": group.group,
                    "state": group.state,
                    "type": group.type,
                    "protocol_type": group.protocol_type,
                    "coordinator": group.coordinator,
                    "lag": lags.get(group.group),
                    "lag_per_second": rate(group.group),
                }
                for group in groups
            ]
            left_out = () if watch and with_lag else ("lag_per_second",) if with_lag else ("lag", "lag_per_second")
            show(rows, output, [{name: row[name] for name in row if name not in left_out} for row in rows])
            if not rows:
                connection.note_hidden(admin, "Groups")


def _lag_of(admin: BlockingAdmin, group: GroupListing) -> int | None:
    if group.type != SHARE:
        return _total_lag(admin, group.group)
    return total_share_lag(admin.share_groups.offsets([group.group])[group.group])


def total_share_lag(offsets: Mapping[TopicPartition, ShareGroupOffset]) -> int | None:
    """Return the lag of a share group over all its partitions; None if it is not known of any."""
    lags = [offset.lag for offset in offsets.values() if offset.lag is not None]
    return sum(lags) if lags or not offsets else None


def _total_lag(admin: BlockingAdmin, group: str) -> int | None:
    """Return the lag of all partitions with a committed offset; None without one."""
    committed = admin.groups.offsets(group)
    ends = offsets_at(admin, _existing(admin, sorted(committed)), admin_api.LATEST)
    lags = [max(0, end - committed[key].offset) for key, end in ends.items()]
    return sum(lags) if lags else None


@command.command("describe", short_help="Show members of groups and their partitions.")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@cluster_options
@format_option
def describe(groups: tuple[str, ...], connection: Connection, output: str) -> None:
    """Show members of groups and their partitions.

    Groups of KIP-848 have the epoch of each member, its subscription, and the target of a member that does not have
    these partitions yet. Those of Kafka Streams (KIP-1071) have tasks, with the partitions that active ones read.
    """
    with connection.admin() as admin:
        descriptions = [_described(group) for group in admin.groups.describe(groups).values()]
        missing = [group["group"] for group in descriptions if group["state"] == _UNKNOWN]
        problem = _no_such_groups(admin, missing)
    rows = [row for group in descriptions if group["state"] != _UNKNOWN for row in _member_rows(group)]
    types = {group["type"] for group in descriptions}
    if not types & {_OF_KIP_848, _STREAMS}:
        rows = [{name: row[name] for name in row if name not in _ONLY_OF_KIP_848} for row in rows]
    if _STREAMS in types:
        rows = [{**row, **{name: row.get(name) for name in _ONLY_OF_STREAMS}} for row in rows]
    if rows or output != "table":
        show(descriptions, output, rows)
    if problem:
        raise problem


def _member_rows(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield rows of a table for members of a group, or one without member."""
    for member in group["members"] or [dict.fromkeys(_MEMBER_COLUMNS)]:
        subscription = [*(member["topics"] or ()), *filter(None, [member["expression"]])]
        has_target = member["epoch"] is not None and member["target"] != member["partitions"]
        yield {
            "group": group["group"],
            "state": group["state"],
            **{name: member[name] for name in ("member", "instance", "client", "host", "epoch")},
            "subscription": subscription,
            "partitions": _short(member["partitions"]),
            "target": _short(member["target"]) if has_target else [],
            **{name: member[name] for name in _ONLY_OF_STREAMS if name in member},
        }


def _short(partitions: list[dict[str, Any]] | None) -> list[str]:
    return [f"{partition['topic']}/{partition['partition']}" for partition in partitions or ()]


def _no_such_groups(admin: BlockingAdmin, names: Iterable[str]) -> ConfigError | None:
    """Return the error for groups that are missing, with similar names; None without any."""
    missing = [*names]
    if not missing:
        return None
    types = {group.group: group.type for group in admin.groups.list()}
    return ConfigError("; ".join(_why_missing(name, types) for name in missing))


def _why_missing(name: str, types: Mapping[str, str]) -> str:
    if types.get(name) == SHARE:
        return (
            f"{name} is a share group: `pylogbroker share describe {name}` shows it, `pylogbroker share` has its verbs"
        )
    return no_such("group", name, types)


def _check_groups(admin: BlockingAdmin, names: Iterable[str]) -> None:
    described = admin.groups.describe(names).values()
    problem = _no_such_groups(admin, (group.group for group in described if group.state == _UNKNOWN))
    if problem:
        raise problem


def _described(group: Any) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": _partition_rows(member.assignment),
                "protocol": _CLASSIC if member.is_classic else group.type,
                "epoch": member.epoch,
                "target": _partition_rows(member.target),
                "topics": [*member.topics],
                "expression": member.expression,
                **({name: getattr(member, name) for name in _ONLY_OF_STREAMS} if group.type == _STREAMS else {}),
            }
            for member in group.members
        ],
    }


def _partition_rows(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]


@command.command("lag", short_help="Show how far groups are behind.")
@click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@watch_option
@cluster_options
@format_option
def lag(groups: tuple[str, ...], watch: float | None, connection: Connection, output: str) -> None:
    """Show how far groups, or all of them, are behind, for each partition with a committed offset or a member.

    `group list --lag` has one line for each group.
    """
    with connection.admin() as admin:
        for _ in views(watch):
            names = groups or [group.group for group in admin.groups.list() if group.type != SHARE]
            show([row for group in names for row in _lag(admin, group)], output)


def _lag(admin: BlockingAdmin, group: str) -> list[dict[str, Any]]:
    _check_groups(admin, [group])
    described = admin.groups.describe([group])[group]
    members = {key: member for member in described.members for key in member.assignment}
    committed = admin.groups.offsets(group)
    keys = sorted({*committed, *members})
    ends = offsets_at(admin, _existing(admin, keys), admin_api.LATEST)
    rows = []
    for topic, partition in keys:
        at = committed[topic, partition].offset if (topic, partition) in committed else None
        end = ends.get((topic, partition))
        member = members.get((topic, partition))
        rows.append(
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "committed": at,
                "end_offset": end,
                "lag": None if at is None or end is None else max(0, end - at),
                "client": member.client_id if member else None,
                "host": member.host if member else None,
            }
        )
    return rows


def _existing(admin: BlockingAdmin, keys: list[TopicPartition]) -> list[TopicPartition]:
    """Return those partitions whose topics have not been deleted."""
    names = {topic.name for topic in admin.topics.list(include_internal=True)}
    described = existing_topics(admin, {topic for topic, _ in keys} & names)
    return [
        (topic, partition)
        for topic, partition in keys
        if topic in described and partition < len(described[topic].partitions)
    ]


@command.command("reset", short_help="Set the offsets of a group, with a preview.")
@click.argument("group", shell_complete=complete_groups)
@reset_options("with a committed offset", may_shift=True)
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
    """Set the committed offsets of a group without members.

    The old and the new offsets are shown first.
    """
    with connection.admin() as admin:
        state = admin.groups.describe([group])[group].state
        committed = {key: offset.offset for key, offset in admin.groups.offsets(group).items()}
        keys = partitions_of(admin, topics) if topics else _existing(admin, sorted(committed))
        if state == _UNKNOWN:
            if not topics:
                _check_groups(admin, [group])
            click.echo(f"There is no group {group} yet: this creates it, with these offsets.", err=True)
        if not keys:
            raise ConfigError(f"group {group} has no committed offsets: name partitions by --topic")
        new, ends = target.offsets(admin, keys, committed)
        show(_preview(group, keys, new, committed, ends), output)
        _note_skipped(new, committed)
        target.note_moved(new)
        if not dry_run:
            if state not in _NO_MEMBERS:
                raise ConfigError(
                    f"group {group} is {state}: stop its members first, they would commit over the new offsets"
                )
            confirm(f"Set the offsets of group {group}?", yes)
            admin.groups.alter_offsets(group, new)
    check_complete("not reset", keys, new)


def _note_skipped(new: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> None:
    skipped = sum(max(0, offset - committed[key]) for key, offset in new.items() if key in committed)
    if skipped:
        click.echo(f"This skips {counted(skipped, 'record')} that the group has not read.", err=True)


def _preview(
    group: str,
    keys: list[TopicPartition],
    new: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "topic": topic,
            "partition": partition,
            "old_offset": committed.get((topic, partition)),
            "new_offset": new.get((topic, partition)),
            "lag": ends[topic, partition] - new[topic, partition] if (topic, partition) in new else None,
        }
        for topic, partition in sorted(keys)
    ]


@command.command("delete", short_help="Delete groups with their offsets.")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@yes_option
@cluster_options
def delete(groups: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Delete groups without members, with their offsets."""
    with connection.admin() as admin:
        share_groups = {group.group for group in admin.groups.list() if group.type == SHARE}
        _check_groups(admin, (group for group in groups if group not in share_groups))
        confirm(f"Delete {', '.join(groups)} with all committed offsets?", yes)
        admin.groups.delete(groups)
    click.echo(f"Deleted {', '.join(groups)}.", err=True)


@command.command("delete-offsets", short_help="Delete committed offsets of a group.")
@click.argument("group", shell_complete=complete_groups)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@yes_option
@cluster_options
def delete_offsets(group: str, topics: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Delete committed offsets of topics that no member of the group reads."""
    with connection.admin() as admin:
        _check_groups(admin, [group])
        keys = partitions_of(admin, topics)
        confirm(f"Delete the offsets of group {group} for {', '.join(topics)}?", yes)
        admin.groups.delete_offsets(group, keys)
    click.echo(f"Deleted the offsets of group {group} for {', '.join(topics)}.", err=True)
