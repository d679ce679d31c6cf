"""A job of an archive: segments of one partition go to a target, each record once.

The next job begins where the target's records end. So a kill at any moment neither loses nor doubles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pylogbroker.features import on_first_use
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.table.archive.decoding import SegmentDecoding
from pylogbroker.table.archive.directory import DirectoryTarget
from pylogbroker.table.archive.jobs import COLUMNS, SCHEMA, Archived, ArchiveJob, ArchiveTarget, SegmentRange
from pylogbroker.table.archive.layout import NO_TOPIC_ID
from pylogbroker.table.archive.segments import SegmentReader, UndecodedBytes
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
    if job.topic_id == NO_TOPIC_ID:
        raise TableError(
            "the topic has no id, so its records could be taken for those of an earlier topic of its name;"
            " topics have ids from inter.broker.protocol.version=2.8 on"
        )
    target = iceberg.IcebergTarget.of(job) if job.root.startswith(_ICEBERG) else DirectoryTarget.of(job)
    with target.exclusive():
        outcome = Archived(target.archived_to())
        decoding = SegmentDecoding.of(job)
        for segment in job.segments:
            start = max(segment.base, outcome.archived_to)
            if start < segment.end:
                _archive_segment(job, segment, start, target, outcome, decoding)
                outcome.archived_to = segment.end
                outcome.files += 1
    return outcome


def _archive_segment(
    job: ArchiveJob,
    segment: SegmentRange,
    start: int,
    target: ArchiveTarget,
    outcome: Archived,
    decoding: SegmentDecoding | None,
) -> None:
    schema = SCHEMA
    if decoding is not None:
        for part in _parts(job, segment, start):
            if not isinstance(part, UndecodedBytes):
                decoding.learn(part)
        decoding.begin(target.schema())
        schema = decoding.schema
    with target.segment(start, segment.end, schema) as sink:
        for part in _parts(job, segment, start):
            if isinstance(part, UndecodedBytes):
                sink.add_dead_letters([part])
                outcome.dead_letters += 1
                continue
            rows, letters = (part, []) if decoding is None else decoding.decoded(part)
            if letters:
                sink.add_dead_letters(letters)
                outcome.undecodable += len(letters)
            sink.add(rows)
            outcome.records += rows.num_rows


def _parts(job: ArchiveJob, segment: SegmentRange, start: int) -> Iterator[pa.RecordBatch | UndecodedBytes]:
    """Yield the rows of a segment from an offset on, with the columns of SCHEMA, and its damaged batches."""
    path = Path(job.directory, f"{segment.base:020d}.kafka")
    reader = SegmentReader(path, segment.size, segment.base, start, segment.end)
    decoder = Decoder(job.topic, job.partition, decoder_columns(COLUMNS))
    for part in reader.parts(decoder, AbortedTransactions(job.aborted)):
        if isinstance(part, UndecodedBytes):
            yield part
        else:
            yield pa.RecordBatch.from_arrays([column_of(part, column) for column in COLUMNS], schema=SCHEMA)
