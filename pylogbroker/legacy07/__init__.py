"""Kafka 0.7: its message format, its byte-addressed logs and its protocol.

The core knows none of this. It asks for what differs: the addressing of a log (`pylogbroker.storage.log.addressing`),
the description of a frame of another protocol (`pylogbroker.wire.recognition`), and the factory of a listener
(`pylogbroker.tap.lifecycle`).

    records   messages: layout, validation, conversion from and to Kafka's later formats
    wire      requests and responses
    storage   logs and log directories; the source of an import
    server    connections and request handlers, for listeners of type SIMPLE
    client    protocol adapter of `SimpleConsumer`

The import of `storage` and of `wire` registers them with the core.
"""
