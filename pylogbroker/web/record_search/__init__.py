"""Search over the records of a topic: all partitions merged by time, in slices of a few milliseconds.

selection   which records: a condition, a text, a range of time
batches     batches of a region, read and inflated in a worker thread; those that cannot match are dropped there
decoding    content of a schema registry's serializers, as JSON
cursor      a partition, read block by block towards its end or its start
search      cursors merged by time, with the positions to go on from

Batches without a needle of the selection (`pylogbroker.conditions.needles`) cost one pass over their bytes. The worker
thread finds the records that contain a needle. These alone are decoded, on the reactor thread and in slices: threads
of Python would make it wait longer.
"""
