"""Compaction: a log keeps the last record of each key.

A process of its own does the cleaning, `python -m pylogbroker.storage.compaction`, so it uses neither the broker's
memory nor its interpreter lock. It reads the files of sealed segments and writes `.cleaned` ones. The broker selects
what is cleaned and when, and swaps the segments.

    selection          which log is compacted next, and which part of it
    process            the cleaner process as the broker sees it
    jobs               jobs and their outcomes, as values and as JSON
    cleaner            one cleaning: collect the keys, then copy what stays
      blocks             files, split into batches; headers as columns
      record_columns     records of many batches as columns
      record_chunks      records of a block, whatever the format
      key_hash           128-bit hashes of keys
      offset_map         key -> last offset, in bounded memory
      offset_map_builder first pass: fills the map
      transactions       aborted data and obsolete markers
      latest_records     which records are the last of their keys
      retention          second pass: which records and batches stay
      batch_rewriter     batches that lost records, or got a delete horizon
      cleaned_segment    the new files

Only the process imports the modules from `cleaner` on, and with them numpy.
"""
