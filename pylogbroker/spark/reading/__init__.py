"""The source: topics as rows of batches and streams.

batches, streaming      what Spark calls
progress, waiting       how far a stream goes with its next micro-batch
bounds, planning        from which offsets to which, and how that is divided among tasks
narrowing               filters of queries
decoding, ...           from record batches to Arrow
"""
