"""pylogbroker: Kafka's log as a Twisted service.

`errors`, `interfaces` and `config` stand at the bottom; `records` and `wire` turn bytes into values and back; `storage`
keeps logs in files; `groups` decides who consumes what; `broker` answers requests; `net` carries them; `tap` puts one
broker together.  ARCHITECTURE.md walks through the rooms.
"""

__version__ = "0.1.0"
