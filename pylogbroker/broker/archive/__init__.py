"""Archived partitions: their segments are copied to a remote storage, read from there, and deleted there (KIP-405).

    service        all archived partitions: rounds of work, failures of the store, deleted topics
    partition      one archived partition, led or followed; it has the three below
    upkeep         what its leader does: copies and deletions
    reads          what consumers get of it
    catalog        what the store has of it, as listed
    access         what all of them share
    limits         bytes per second of copies and reads
    store_calls    calls of the store in worker threads, which end with the broker

`storage.remote` has the formats and steps, without Twisted. This package is imported only by brokers with
`remote.log.storage.system.enable`.
"""
