"""Source: topics as rows of batches and streams.

batch_reader, stream_reader     readers that Spark calls
micro_batches, record_wait      end of the next micro-batch of a stream
bounds, slices                  offsets to read, and their division among tasks
filter_pushdown                 filters that reduce what is read
decoder, ...                    record batches to Arrow
"""
