"""Progress bars of long work on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress
else:
    rich_console = on_first_use("rich.console")
    rich_progress = on_first_use("rich.progress")


@contextmanager
def progress_bar(title: str, total: Callable[[], int]) -> Iterator[Callable[[int], object] | None]:
    """Show a bar of bytes, and yield the function that advances it; None where there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=rich_console.Console(file=sys.stderr), transient=True) as shown:
        task = shown.add_task(title, total=total())
        yield lambda size: shown.advance(task, size)
