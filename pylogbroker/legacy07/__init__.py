"""Kafka 0.7: its message format, byte-addressed logs and protocol.

Importing `storage` and this package registers them with the core, which knows none of this: `storage.log.addressing`,
`wire.recognition`. `tap.lifecycle` has the listeners.

    records   messages: layout, validation, conversion from and to later formats
    wire      requests and responses
    storage   logs and log directories; source of imports
    server    listeners of type SIMPLE: connections, request handlers
    client    protocol adapter of `SimpleConsumer`
"""

from typing import TYPE_CHECKING

from pylogbroker.features import on_first_use
from pylogbroker.wire import recognition

if TYPE_CHECKING:
    from pylogbroker.legacy07 import wire as legacy07_wire
else:
    legacy07_wire = on_first_use("pylogbroker.legacy07.wire")


def _describe(frame: memoryview) -> str | None:
    return legacy07_wire.describe_legacy07_request(frame)


recognition.register(_describe)
