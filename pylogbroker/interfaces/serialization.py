"""Encoders and decoders: from what a program has to the bytes of a message, and back."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from typing import Any

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IEncoder(Interface):
    """Makes bytes of the values, or of the keys, that a producer is given."""

    def to_message(data: Any) -> bytes | None:
        """The bytes of a message; None is a message without a value, which deletes its key in a compacted topic.

        Called on the reactor's thread, once for each record; must not block. An exception fails that record.
        """


class IDecoder(Interface):
    """Makes of bytes what a consumer's user wants to see."""

    def from_message(data: bytes | None) -> Any:
        """What the value, or the key, of a message means; None stands for a message that has none.

        Called once for each message, before it is given out, mostly on the reactor's thread; must not block. An
        exception reaches whoever asks for that message, and leaves the others alone.
        """


class IEncoderFactory(IPluginFactory):
    """Makes encoders (`IEncoder`): a plugin. Settings name it: `value.serializer`, `key.serializer`."""


class IDecoderFactory(IPluginFactory):
    """Makes decoders (`IDecoder`): a plugin. Settings name it: `value.deserializer`, `key.deserializer`."""
