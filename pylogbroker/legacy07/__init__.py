"""Kafka 0.7: its message format, its byte-addressed logs and its protocol.

The import of `storage` and of `wire` registers them with the core, which knows none of this: `storage.log.addressing`,
`wire.recognition`, and for listeners `tap.lifecycle`.

    records   messages: layout, validation, conversion from and to Kafka's later formats
    wire      requests and responses
    storage   logs and log directories; the source of an import
    server    connections and request handlers, for listeners of type SIMPLE
    client    protocol adapter of `SimpleConsumer`
"""
