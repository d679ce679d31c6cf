"""Kafka 0.7: its message format, byte-addressed logs and protocol.

Importing `storage` and `wire` registers them with the core, which knows none of this: `storage.log.addressing`,
`wire.recognition`, `tap.lifecycle` (listeners).

    records   messages: layout, validation, conversion from and to later formats
    wire      requests and responses
    storage   logs and log directories; source of imports
    server    listeners of type SIMPLE: connections, request handlers
    client    protocol adapter of `SimpleConsumer`
"""
