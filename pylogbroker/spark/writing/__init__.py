"""The sink: rows to topics, of streams exactly once.

sink                    what Spark calls
task                    the rows of one task, from columns to what the producer sends
columns, placing, ...   which columns there are, the partitions of rows, their records
producing, identities   what is sent is written once, in its order
transactions            micro-batches and their markers
"""
