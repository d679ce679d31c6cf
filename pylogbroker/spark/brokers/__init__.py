"""Blocking Kafka client for Spark's Python processes, which have no reactor.

cluster     metadata, list offsets, coordinators
fetcher     a partition's record batches between two offsets
connection  to one broker
"""
