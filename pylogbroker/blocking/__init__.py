"""Blocking Kafka client for processes that live briefly and have no reactor: commands, and Spark's Python processes.

cluster     metadata, list offsets, coordinators
fetcher     a partition's record batches between two offsets
connection  to one broker
"""
