"""Archived partitions: their segments are copied to a remote storage, read from there, and deleted there (KIP-405).

    service        all archived partitions: rounds of work, failures of the store, deleted topics
    partition      one archived partition, led or followed
    limits         bytes per second of copies and reads
    store_calls    calls of the store in worker threads, which end with the broker

`storage.remote` has the formats and steps, without Twisted. This package is imported only by brokers with
`remote.log.storage.system.enable`.
"""
