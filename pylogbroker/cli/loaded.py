"""`pylogbroker loaded`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import filesize
    from rich import table as rich_table

    from pylogbroker.interfaces import TopicPartition
    from pylogbroker.spark.loading import job
    from pylogbroker.spark.loading import store as load_store
    from pylogbroker.spark.loading.manifest import Manifest, ManifestEntry
else:
    filesize = on_first_use("rich.filesize")
    job = on_first_use("pylogbroker.spark.loading.job")
    load_store = on_first_use("pylogbroker.spark.loading.store")
    rich_console = on_first_use("rich.console")
    rich_table = on_first_use("rich.table")


@click.command("loaded", short_help="Show what has been loaded into a directory.")
@click.argument("directory")
@click.option("--files", is_flag=True, help="Print only the paths of the valid files, one per line.")
def command(directory: str, files: bool) -> None:
    """Show what has been loaded into a directory."""
    store = load_store.Store.of(directory)
    manifest = job.manifest_of(store)
    if files:
        for entry in manifest.files():
            click.echo(f"{store.root if store.is_local else store.uri}/{entry.path}")
    else:
        _show(manifest)


def _show(manifest: Manifest) -> None:
    table = rich_table.Table(box=None)
    table.add_column("topic", overflow="fold")
    for name in ("partition", "from", "to", "files", "records", "size"):
        table.add_column(name, justify="right")
    for (topic, partition), entries in sorted(_by_partition(manifest).items()):
        ends = min(entry.start for entry in entries), max(entry.end for entry in entries)
        files = sum(entry.path is not None for entry in entries)
        records, size = sum(entry.records for entry in entries), sum(entry.bytes for entry in entries)
        table.add_row(topic, str(partition), *map(str, ends), str(files), f"{records:,}", filesize.decimal(size))
    console = rich_console.Console()
    console.print(table)
    for entry in manifest.entries:
        if entry.gap is not None:
            where = f"{entry.topic}/{entry.partition}, offsets {entry.start} to {entry.end}"
            console.print(f"not loaded: {where}: {entry.gap}", highlight=False, markup=False)
    if manifest.replay is not None:
        console.print("a replay was started and is not complete")


def _by_partition(manifest: Manifest) -> dict[TopicPartition, list[ManifestEntry]]:
    by_partition: dict[TopicPartition, list[ManifestEntry]] = {}
    for entry in manifest.entries:
        by_partition.setdefault(entry.key, []).append(entry)
    return by_partition
