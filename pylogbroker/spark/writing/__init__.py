"""Sink: rows to topics; exactly once for streams.

sink                    writers that Spark calls
task                    rows of one task, from columns to batches
columns, partitioner    accepted columns; partitions of rows
encoder, key_hash       record batches; hashes of keys
producer, producer_ids  idempotent producer
transactions            micro-batches and their markers
"""
