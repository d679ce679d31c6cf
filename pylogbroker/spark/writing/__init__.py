"""Sink: rows to topics; exactly once for streams.

sink                    writers that Spark calls
task                    rows of one task, from columns to batches
columns, placing, ...   accepted columns, partitioning, encoding
producing, identities   idempotent producer
transactions            micro-batches and their markers
"""
