"""Segments of logs in a remote storage: names and contents of objects, copies, deletions, and reads.

Modules know only later ones:

    reading, copying, deletion, contents
    summaries
    lineage
    segment_indexes, chunk_cache, store_marker, pending_deletions
    manifest, object_names

A segment is three objects. The manifest is written last and deleted first: it is the commit of a copy. Readers believe
nothing: sizes, bounds and checksums are checked when they arrive.

Thread rules: functions that take a store block, and run in workers; values are immutable.
"""
