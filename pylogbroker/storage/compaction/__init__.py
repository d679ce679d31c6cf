"""Compaction: a log keeps the last record of each key.

The cleaning is done by a process of its own, `python -m pylogbroker.storage.compaction`, so that neither its memory nor
the interpreter's lock is the broker's.  It reads the files of sealed segments and writes `.cleaned` ones; the broker
decides what is cleaned when, and swaps.

    jobs          what is asked, and what is told
    cleaning      one cleaning: learn the keys, then copy what stays
      grouping      which segments become one
      blocks        files, cut into entries; headers as columns
      rows          the records of many batches as columns
      hashing       keys as 128 bits
      key_map       key -> last offset, in bounded memory
      transactions  which data were aborted, which markers have served
      retention     which records and batches stay
      rewriting     batches that lost records, or got a delete horizon
      message_sets  the same for the old formats, record by record
      output        the new files
      throttle      not more bytes a second than allowed

Only the process itself imports what lies below `jobs`, and with it numpy.
"""
