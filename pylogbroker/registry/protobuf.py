"""Protobuf: parsing, and whether two schemas are the same. `protobuf_compatibility` has the rules for changes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.protobuf_compatibility import ProtobufTypes, problems
from pylogbroker.schemas.errors import InvalidSchema
from pylogbroker.schemas.protobuf_codec import files_of, pool_of

_SERIALIZED = "serialized"
_OWN_FORMS = ("", "ignore_extensions")


def _drop_default_names(messages: Iterable[Any]) -> None:
    """Remove the names in JSON that follow from the names of fields: the compiler writes them, others do not."""
    for message in messages:
        for field in message.field:
            head, *words = field.name.split("_")
            if field.json_name == head + "".join(word[:1].upper() + word[1:] for word in words):
                field.ClearField("json_name")
        _drop_default_names(message.nested_type)


@attrs.frozen(eq=False, repr=False)
class ProtobufSchema:
    """A parsed schema; its text stays as it was given, without whitespace around it."""

    text: str
    _types: ProtobufTypes
    _serialized: bytes

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> ProtobufSchema:
        """Parse a schema that may import others by their names; raise RegistryError."""
        try:
            files = files_of(text.strip(), references)
            pool_of(files)
        except InvalidSchema as error:
            raise RegistryError.invalid_schema(error) from error
        except RecursionError as error:
            raise RegistryError.invalid_schema("it is nested too deeply") from error
        main = type(files[-1])()
        main.CopyFrom(files[-1])
        main.ClearField("name")
        main.ClearField("source_code_info")
        _drop_default_names(main.message_type)
        return cls(text.strip(), ProtobufTypes.of(files), main.SerializeToString(deterministic=True))

    def problems(self, writer: ProtobufSchema) -> list[str]:
        """Return why data of a writer's schema may not be read with this one."""
        return problems(writer._types, self._types)

    def is_same(self, other: ProtobufSchema) -> bool:
        """Return whether both declare the same, perhaps with other comments, or serialized."""
        return self._serialized == other._serialized

    def formatted(self, form: str) -> str:
        if form == _SERIALIZED:
            return b64encode(self._types.main.SerializeToString(deterministic=True)).decode()
        if form in _OWN_FORMS:
            return self.text
        raise RegistryError(400, f"the format {form!r} of Protobuf schemas is not supported; expected {_SERIALIZED}")
