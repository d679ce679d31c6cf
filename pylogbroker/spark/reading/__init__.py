"""Source: topics as rows of batches and streams.

batches, streaming      readers that Spark calls
progress, waiting       end of the next micro-batch of a stream
bounds, planning        offsets to read, and their division among tasks
narrowing               filter pushdown
decoding, ...           record batches to Arrow
"""
