"""Topics as Arrow tables.

    from pylogbroker.table import read_table

    orders = read_table("orders", bootstrap_servers="127.0.0.1:9092", start="1h", value="json")

reading                     read_table, read_batches
bounds, columns, contents   starts and ends; which columns; forms of keys and values
topic_source                partitions between two offsets, as raw rows
json_*, registry_columns    JSON, and contents by a schema registry, as columns
topic_dataset, pushdown     a topic as a dataset that DuckDB and Polars scan
sql, sql_hints              DuckDB with topics as tables; hints for queries that it rejects
decoder, headers, spans     record batches to Arrow

Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pylogbroker.extras import required_by
from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.table.errors import RecordsDeleted, TableError, UndecodableRecord
    from pylogbroker.table.reading import read_batches, read_table
    from pylogbroker.table.sql import connect
    from pylogbroker.table.topic_dataset import dataset

__all__ = ["RecordsDeleted", "TableError", "UndecodableRecord", "connect", "dataset", "read_batches", "read_table"]

_MODULES: Final = {
    "RecordsDeleted": ".errors",
    "TableError": ".errors",
    "UndecodableRecord": ".errors",
    "connect": ".sql",
    "dataset": ".topic_dataset",
    "read_batches": ".reading",
    "read_table": ".reading",
}

_get, __dir__ = lazy_names(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    with required_by(__name__, "tables"):
        return _get(name)
