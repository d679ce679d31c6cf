"""Logs of Kafka 0.7. Importing registers the message format with `pylogbroker.storage`."""

from pylogbroker.legacy07.storage.addressing import ADDRESSING
from pylogbroker.legacy07.storage.directories import holds_kafka07
from pylogbroker.storage.log.addressing import register

__all__ = ["ADDRESSING", "holds_kafka07"]

register(ADDRESSING)
