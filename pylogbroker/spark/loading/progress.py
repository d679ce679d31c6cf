"""Progress of a load, for callbacks or as a bar.

clicks  ━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━  54%  12,345,678 records  1.2 GB  lag 9,876,543  0:00:07
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import filesize
    from rich import progress as rich_progress
else:
    filesize = on_first_use("rich.filesize")
    rich_console = on_first_use("rich.console")
    rich_progress = on_first_use("rich.progress")


@attrs.frozen(kw_only=True)
class Progress:
    records: int
    """Rows in published files."""
    bytes: int
    """Of published and temporary files."""
    files: int
    offsets: int
    """Offsets done out of `total`; some have no record."""
    total: int
    lag: int
    """Offsets not loaded, by the brokers' last answer."""
    seconds: float


Report = Callable[[Progress], None]


@contextmanager
def reporting(to: bool | Report, name: str) -> Iterator[Report]:
    if callable(to):
        yield to
    elif to:
        with _bar(name) as report:
            yield report
    else:
        yield lambda progress: None


@contextmanager
def _bar(name: str) -> Iterator[Report]:
    texts = rich_progress.TextColumn("{task.fields[records]:,} records  {task.fields[bytes]}  lag {task.fields[lag]:,}")
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        texts,
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=rich_console.Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None, records=0, bytes=filesize.decimal(0), lag=0)

        def report(now: _Progress) -> None:
            total = max(now.total, 1)
            done = now.offsets if now.total else total
            bar.update(
                task, completed=done, total=total, records=now.records, bytes=filesize.decimal(now.bytes), lag=now.lag
            )

        yield report


_Progress = Progress
