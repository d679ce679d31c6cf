"""Connections to brokers, below the client, Spark's part and the broker.

`client_protocol`, `settings`, `errors` and `malloc_tuning` need no Twisted: blocking connections use them, too.
"""
