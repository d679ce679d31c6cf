"""`pylogbroker loaded`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pylogbroker.interfaces import TopicPartition
    from pylogbroker.spark.loading.manifest import Manifest, ManifestEntry


@click.command("loaded", short_help="Show what has been loaded into a directory.")
@click.argument("directory")
@click.option("--files", is_flag=True, help="Print only the paths of the valid files, one per line.")
def command(directory: str, files: bool) -> None:
    """Show what has been loaded into a directory."""
    from pylogbroker.spark.loading.job import manifest_of
    from pylogbroker.spark.loading.store import Store

    store = Store.of(directory)
    manifest = manifest_of(store)
    if files:
        for entry in manifest.files():
            click.echo(f"{store.root if store.is_local else store.uri}/{entry.path}")
    else:
        _show(manifest)


def _show(manifest: Manifest) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table

    table = Table(box=None)
    table.add_column("topic", overflow="fold")
    for name in ("partition", "from", "to", "files", "records", "size"):
        table.add_column(name, justify="right")
    for (topic, partition), entries in sorted(_by_partition(manifest).items()):
        ends = min(entry.start for entry in entries), max(entry.end for entry in entries)
        files = sum(entry.path is not None for entry in entries)
        records, size = sum(entry.records for entry in entries), sum(entry.bytes for entry in entries)
        table.add_row(topic, str(partition), *map(str, ends), str(files), f"{records:,}", decimal(size))
    console = Console()
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
