"""Kafka 0.7: its message format, its byte-addressed logs and its protocol.

records   messages: layout, validation, conversion to and from Kafka's later formats
storage   logs and log directories; the import registers the message format with `pylogbroker.storage`
"""
