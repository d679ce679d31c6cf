"""Blocking Kafka client for Spark's Python processes, which have no reactor.

cluster     metadata, list offsets, coordinators
fetcher     record batches of a partition between two offsets
connection  one connection to one broker
"""
