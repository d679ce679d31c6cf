"""A member's copy of KRaft's metadata log, in Kafka's layout and formats. Files, no Twisted.

```
<metadata.log.dir>/__cluster_metadata-0/
    <base offset, 20 digits>.log                          record batches, as the controllers sent them
    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint snapshot: all records before the end offset, compacted
    ....checkpoint.part                                   snapshot on its way
    leader-epoch-checkpoint                               epoch, start offset
    quorum-state                                          leader and epoch, as an observer knows them (JSON)
    partition.metadata                                    id of the topic
    cluster-id                                            not Kafka's: id of the cluster whose records these are
    .lock                                                 held while the broker runs
```

    directory   the directory as a whole: load, snapshots, quorum-state
    segments    the log's segments

The log is appended to, and read as a whole at a start. So it has none of the indexes and producer states that
`storage.log` keeps for logs that clients read, and its files have the names that Kafka's tools expect.
"""
