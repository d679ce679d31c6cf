"""pylogbroker: Kafka's log as a Twisted service.

`errors`, `interfaces` and `config` are the lowest layer. `records` and `wire` convert bytes to values and back.
`storage` keeps logs in files. `groups` and `transactions` are coordinators. `broker` answers requests, and `net`
carries them. `tap` assembles a broker. `client` and `spark` use brokers. ARCHITECTURE.md has the paths of records
through these packages.
"""

__version__ = "0.1.0"
