"""A job of an archive: segments of one partition go to a target, each record once.

The next job begins where the target's records end. So a kill at any moment neither loses nor doubles.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pylogbroker.features import on_first_use
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.table.archive.directory import DirectoryTarget
from pylogbroker.table.archive.jobs import COLUMNS, SCHEMA, Archived, ArchiveJob, ArchiveTarget, SegmentRange
from pylogbroker.table.archive.segments import DamagedBatch, SegmentReader
from pylogbroker.table.columns import column_of, decoder_columns
from pylogbroker.table.decoder import Decoder
from pylogbroker.table.errors import TableError

if TYPE_CHECKING:
    from pylogbroker.table.archive import iceberg
else:
    iceberg = on_first_use("pylogbroker.table.archive.iceberg")

_ICEBERG: Final = "iceberg://"
_OF_KAFKA_07: Final = "message-format"


def archive(job: ArchiveJob) -> Archived:
    """Write what the archive does not have yet; raise PylogbrokerError or OSError."""
    if os.path.exists(f"{job.directory}/{_OF_KAFKA_07}"):
        raise TableError(f"{job.directory} has the format of Kafka 0.7, which is not archived")
    target = iceberg.IcebergTarget.of(job) if job.root.startswith(_ICEBERG) else DirectoryTarget.of(job)
    with target.exclusive():
        outcome = Archived(target.archived_to())
        for segment in job.segments:
            start = max(segment.base, outcome.archived_to)
            if start < segment.end:
                _archive_segment(job, segment, start, target, outcome)
                outcome.archived_to = segment.end
                outcome.files += 1
    return outcome


def _archive_segment(
    job: ArchiveJob, segment: SegmentRange, start: int, target: ArchiveTarget, outcome: Archived
) -> None:
    path = Path(job.directory, f"{segment.base:020d}.kafka")
    reader = SegmentReader(path, segment.size, segment.base, start, segment.end)
    decoder = Decoder(job.topic, job.partition, decoder_columns(COLUMNS))
    with target.segment(start, segment.end) as sink:
        for part in reader.parts(decoder, AbortedTransactions(job.aborted)):
            if isinstance(part, DamagedBatch):
                sink.add_damaged(part)
                outcome.dead_letters += 1
            else:
                columns = [column_of(part, column) for column in COLUMNS]
                sink.add(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
                outcome.records += part.num_rows
