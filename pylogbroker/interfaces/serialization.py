"""Encoders and decoders: Python values to message bytes and back."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from typing import Any

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IEncoder(Interface):
    """Encoder of a producer's values or keys."""

    def to_message(data: Any) -> bytes | None:
        """Return the bytes of `data`; None is a message without a value, which deletes its key in a compacted topic.

        Called on the reactor thread for each record; must not block. An exception fails that record.
        """


class IDecoder(Interface):
    """Decoder of a consumer's values or keys."""

    def from_message(data: bytes | None) -> Any:
        """Return the Python value of `data`; None means no value or key.

        Called for each message before delivery, usually on the reactor thread; must not block. An exception is raised
        to the reader of that message alone.
        """


class IEncoderFactory(IPluginFactory):
    """Plugin factory of encoders, named by `value.serializer` and `key.serializer`."""


class IDecoderFactory(IPluginFactory):
    """Plugin factory of decoders, named by `value.deserializer` and `key.deserializer`."""
