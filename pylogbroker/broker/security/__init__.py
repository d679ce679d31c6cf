"""Security of one broker: what binds `pylogbroker.security` to its settings, listeners and metadata."""
