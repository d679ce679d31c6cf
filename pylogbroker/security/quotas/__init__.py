"""Quotas of clients, as Kafka has them, without I/O or clock: limits, measures of use, and throttle times."""
