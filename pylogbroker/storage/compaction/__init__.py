"""Compaction: a log keeps the last record of each key.

The cleaner is a process, `python -m pylogbroker.storage.compaction`: it does not use the broker's memory or interpreter
lock. The broker selects logs and swaps their segments.

    broker         selection, process, jobs
    cleaner        cleaner
      first pass     offset_map_builder, key_hash, offset_map
      second pass    latest_records, retention, transactions, batch_rewriter, cleaned_segment
      both           blocks, record_chunks, record_columns

Only the process imports the cleaner's modules, and with them numpy.
"""
