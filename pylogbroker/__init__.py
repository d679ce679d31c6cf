"""pylogbroker: Kafka's log as a Twisted service. ARCHITECTURE.md describes its packages."""

__version__ = "0.1.0"
