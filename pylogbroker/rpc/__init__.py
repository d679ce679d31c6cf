"""Connections to brokers, below the client and the broker."""
