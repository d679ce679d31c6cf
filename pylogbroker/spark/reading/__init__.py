"""Source: topics as rows of batches and streams.

batch_reader, stream_reader     readers that Spark calls
micro_batches, record_wait      end of a stream's next micro-batch
bounds, slices                  offsets to read, divided among tasks
filter_pushdown                 filters that reduce reads
pylogbroker.table.decoder       record batches to Arrow
"""
