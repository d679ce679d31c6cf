"""Characters of a message's JSON, counted before it is made.

Protobuf's own conversion to JSON has no bound. It shows all fields without presence, so each empty message of two bytes
may become thousands of characters, and the value of an Any is parsed again on each level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from pylogbroker.schemas.limits import JsonBudget

_ANY: Final = "google.protobuf.Any"
_KEY_CHARACTERS: Final = len('"": , ')
_NUMBER_CHARACTERS: Final = len('"-1.7976931348623157e+308"')
_ESCAPED_CHARACTERS: Final = len("\\u0000")
_BETWEEN_CHARACTERS: Final = len(", ")


@attrs.frozen
class _FieldCosts:
    """Characters of a field's name where it is not part of every message, and of a number, bool or enum."""

    name: int
    scalar: int
    map_value: Any = None
    """Descriptor of the values of a map."""


@attrs.frozen(eq=False, repr=False)
class MessageCosts:
    """Costs of the messages of a pool; `file` and those that it imports are all that it has."""

    _pool: Any
    _file: Any
    _empty: dict[str, int] = attrs.field(factory=dict, init=False)
    """Characters of messages without a value, by name."""
    _fields: dict[str, _FieldCosts] = attrs.field(factory=dict, init=False)
    _per_byte: list[int] = attrs.field(factory=list, init=False)
    """Characters that a byte may at most become, once it is computed; empty if nothing bounds them."""

    def __attrs_post_init__(self) -> None:
        files = list(_files(self._file, set()))
        messages = [message for file in files for message in _messages(file.message_types_by_name.values())]
        if any(message.full_name == _ANY for message in messages):
            return
        extensions = [field for file in files for field in file.extensions_by_name.values()]
        extensions += [field for message in messages for field in message.extensions]
        fields = [field for message in messages for field in message.fields] + extensions
        costs = [len(field.full_name) + self._field(field).scalar for field in fields]
        self._per_byte.append(
            max(map(self._of_empty, messages)) + max(costs, default=0) + _KEY_CHARACTERS + _NUMBER_CHARACTERS
        )

    def is_small(self, content: bytes, budget: JsonBudget) -> bool:
        """Return whether no content of this size can become more than the budget."""
        return bool(self._per_byte) and (len(content) + 1) * self._per_byte[0] <= budget.left

    def spend(self, message: Any, budget: JsonBudget) -> None:
        """Spend what a message's JSON has at most; raise Undecodable if that is too much."""
        budget.spend(self._of_empty(message.DESCRIPTOR))
        for field, value in message.ListFields():
            costs = self._field(field)
            budget.spend(costs.name)
            if costs.map_value is not None:
                self._spend_map(costs.map_value, value, budget)
            elif is_repeated(field):
                self._spend_items(field, value, budget)
            else:
                self._spend_value(field, value, budget)
        if message.DESCRIPTOR.full_name == _ANY:
            self._spend_packed(message, budget)

    def _spend_items(self, field: Any, values: Any, budget: JsonBudget) -> None:
        budget.spend(len(values) * (self._field(field).scalar + _BETWEEN_CHARACTERS))
        if not self._field(field).scalar:
            for value in values:
                self._spend_value(field, value, budget)

    def _spend_map(self, field: Any, members: Any, budget: JsonBudget) -> None:
        for key in members:
            budget.spend(_ESCAPED_CHARACTERS * len(str(key)) + _KEY_CHARACTERS)
            self._spend_value(field, members[key], budget)

    def _spend_value(self, field: Any, value: Any, budget: JsonBudget) -> None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            self.spend(value, budget)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            budget.spend(_ESCAPED_CHARACTERS * len(value) + len('""'))
        else:
            budget.spend(self._field(field).scalar)

    def _spend_packed(self, message: Any, budget: JsonBudget) -> None:
        """Spend the value of an Any, and its bytes: each level of nested ones copies them."""
        budget.spend(len(message.value) + _KEY_CHARACTERS + len("value"))
        try:
            descriptor = self._pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
            packed = GetMessageClass(descriptor)()
            packed.ParseFromString(message.value)
        except (KeyError, DecodeError):  # which the conversion names
            return
        self.spend(packed, budget)

    def _of_empty(self, message: Any) -> int:
        """Return the characters of a message without a value, those around it included."""
        cost = self._empty.get(message.full_name)
        if cost is None:
            shown = [field for field in message.fields if not field.has_presence]
            cost = len("{}") + sum(
                len(field.name) + _KEY_CHARACTERS + (len("[]") if is_repeated(field) else self._default(field))
                for field in shown
            )
            self._empty[message.full_name] = cost
        return cost

    def _default(self, field: Any) -> int:
        return self._field(field).scalar or len('""')

    def _field(self, field: Any) -> _FieldCosts:
        costs = self._fields.get(field.full_name)
        if costs is None:
            name = 0
            if field.has_presence or field.is_extension:
                name = _KEY_CHARACTERS + (len(f"[{field.full_name}]") if field.is_extension else len(field.name))
            scalar = _scalar(field)
            map_value = field.message_type.fields_by_name["value"] if _is_map(field) else None
            costs = self._fields[field.full_name] = _FieldCosts(name, scalar, map_value)
        return costs


def _scalar(field: Any) -> int:
    """Return the characters of a number, bool or enum at most, 0 for other fields."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return max(_NUMBER_CHARACTERS, *(len(value.name) + len('""') for value in field.enum_type.values))
    if field.cpp_type in (FieldDescriptor.CPPTYPE_MESSAGE, FieldDescriptor.CPPTYPE_STRING):
        return 0
    return _NUMBER_CHARACTERS


def is_repeated(field: Any) -> bool:
    return isinstance(field.default_value, list)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _files(file: Any, names: set[str]) -> Iterator[Any]:
    """Yield a file and those that it imports, each once."""
    if file.name not in names:
        names.add(file.name)
        yield file
        for imported in file.dependencies:
            yield from _files(imported, names)


def _messages(messages: Any) -> Iterator[Any]:
    for message in messages:
        yield message
        yield from _messages(message.nested_types)
