"""Columnar codec: decodes and encodes records without an object for each.

>>> from pylogbroker.records.columnar import decode, encode
>>> batch = encode([b"k1", None], [b"v1", b"v2"], [1500, 1501], base_offset=7)
>>> [columns] = decode(batch)
>>> columns.offsets.tolist(), columns.timestamps.tolist(), columns.keys(), columns.values()
([7, 8], [1500, 1501], [b'k1', None], [b'v1', b'v2'])
"""

from pylogbroker.records.columnar.decode import Columns, columns_from, columns_of, decode
from pylogbroker.records.columnar.encode import encode
from pylogbroker.records.columnar.entry_groups import AbortedTransactions, EntryGroup, entry_groups

__all__ = [
    "AbortedTransactions",
    "Columns",
    "EntryGroup",
    "columns_from",
    "columns_of",
    "decode",
    "encode",
    "entry_groups",
]
