"""Options that say where a group or a share group is to begin, and the offsets that follow from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from pylogbroker.cli.cluster_options import complete_topics
from pylogbroker.cli.topic import offsets_at
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.config import times
    from pylogbroker.interfaces import TopicPartition
else:
    admin_api = on_first_use("pylogbroker.client.admin")
    times = on_first_use("pylogbroker.config.times")


@attrs.frozen
class ResetTarget:
    """Exactly one of the options is given."""

    to_earliest: bool
    to_latest: bool
    to_offset: int | None
    since_ms: int | None
    shift_by: int | None

    def offsets(
        self, admin: BlockingAdmin, keys: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, int]]:
        """Return the new offsets, which the logs have, and the ends. Partitions without a leader are left out."""
        ends = offsets_at(admin, keys, admin_api.LATEST)
        starts = offsets_at(admin, [key for key in keys if key in ends], admin_api.EARLIEST)
        targets = self._targets(admin, starts, ends, committed)
        return {key: min(max(targets[key], start), ends[key]) for key, start in starts.items()}, ends

    def _targets(
        self,
        admin: BlockingAdmin,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, int]:
        if self.to_offset is not None:
            return dict.fromkeys(starts, self.to_offset)
        if self.shift_by is not None:
            for topic, number in starts.keys() - committed.keys():
                raise ConfigError(f"--shift-by: the group has no committed offset of {topic}/{number}")
            return {key: committed[key] + self.shift_by for key in starts}
        if self.since_ms is not None:
            listed = admin.records.offsets(dict.fromkeys(starts, self.since_ms))
            return {key: listed[key].or_end(ends[key]) for key in starts}
        return starts if self.to_earliest else ends

    def note_moved(self, new: Mapping[TopicPartition, int]) -> None:
        """Say where the log does not have the offset of --to-offset."""
        moved = [f"{topic}/{number}: {at}" for (topic, number), at in sorted(new.items()) if at != self.to_offset]
        if self.to_offset is not None and moved:
            text = f"Not all partitions have offset {self.to_offset}; the nearest is taken: {', '.join(moved)}."
            click.echo(text, err=True)


def reset_options(all_partitions: str, *, may_shift: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Pass `topics`, `target` and `dry_run`; `all_partitions` are those without --topic."""
    names = ["--to-earliest", "--to-latest", "--to-offset", "--to-time", *(["--shift-by"] if may_shift else [])]
    needed = f"give one of {', '.join(names[:-1])} and {names[-1]}"

    def decorated(function: Callable[..., Any]) -> Any:
        @click.option(
            "-t",
            "--topic",
            "topics",
            multiple=True,
            metavar="TOPIC[:PARTITION,...]",
            shell_complete=complete_topics,
            help=f"Only these partitions; may be repeated. Default: all {all_partitions}.",
        )
        @click.option("--to-earliest", is_flag=True, help="The log's start.")
        @click.option("--to-latest", is_flag=True, help="The log's end.")
        @click.option("--to-offset", type=click.IntRange(0), help="This offset, or the nearest one that the log has.")
        @click.option("--to-time", metavar="TIME", help="The first record since: 2023-11-14T22:13:20Z, 12h (ago), ms.")
        @_option_if(may_shift, "--shift-by", type=int, help="So many records further, or back if negative.")
        @click.option("--dry-run", is_flag=True, help="Only show the old and the new offsets.")
        @functools.wraps(function)
        def with_target(
            *arguments: Any,
            to_earliest: bool,
            to_latest: bool,
            to_offset: int | None,
            to_time: str | None,
            shift_by: int | None = None,
            **others: Any,
        ) -> Any:
            given = (to_earliest, to_latest, to_offset is not None, to_time is not None, shift_by is not None)
            if sum(given) != 1:
                raise click.UsageError(needed)
            since_ms = times.milliseconds("--to-time", to_time)
            target = ResetTarget(to_earliest, to_latest, to_offset, since_ms, shift_by)
            return function(*arguments, target=target, **others)

        return with_target

    return decorated


def _option_if(is_there: bool, *names: str, **details: Any) -> Callable[[Callable[..., Any]], Any]:
    return click.option(*names, **details) if is_there else lambda function: function
