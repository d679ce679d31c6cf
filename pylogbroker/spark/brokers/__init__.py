"""Brokers, as the processes that Spark makes see them: blocking, and without a reactor.

cluster     where partitions are led, and what offsets they have
fetching    what a partition has between two offsets
connection  one connection to one broker
"""
