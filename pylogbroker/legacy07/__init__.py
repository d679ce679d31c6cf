"""Kafka 0.7: its message format, byte-addressed logs and protocol.

Importing `storage` and this package registers them with the core, which knows none of this: `storage.log.addressing`,
`wire.recognition`. `tap.lifecycle` has the listeners.

    records   messages: layout, validation, conversion from and to later formats
    wire      requests and responses
    storage   logs and log directories; source of imports
    server    listeners of type SIMPLE: connections, request handlers
    client    protocol adapter of `SimpleConsumer`
"""

from pylogbroker.wire import recognition


def _describe(frame: memoryview) -> str | None:
    from pylogbroker.legacy07.wire import describe_legacy07_request  # takes milliseconds, for a rare mistake

    return describe_legacy07_request(frame)


recognition.register(_describe)
