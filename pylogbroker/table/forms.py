"""Forms of keys and values by the names that users give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.table.contents import BinaryForm, ContentForm, TextForm
from pylogbroker.table.json_columns import JsonForm, type_of_schema

if TYPE_CHECKING:
    from pylogbroker.table import registry_columns
else:
    registry_columns = on_first_use("pylogbroker.table.registry_columns")

BY_REGISTRY: Final = ("avro", "protobuf", "json-schema", "auto")
FORMS: Final = ("binary", "text", "json", *BY_REGISTRY)


def form_of(
    field: str, name: str, schema: object = None, schema_registry: str | Mapping[str, str] | None = None
) -> ContentForm:
    """Return the form of a field, `key` or `value`; raise ConfigError or TableError."""
    if name not in FORMS:
        raise ConfigError(f"{field}: {name!r} is not accepted; expected {', '.join(FORMS)}")
    if schema is not None and name != "json":
        raise ConfigError(f'{field}_schema needs {field}="json": other forms have their own schemas')
    if name in BY_REGISTRY:
        with required_by(f'{field}="{name}"', "registry"):
            return registry_columns.form_by_registry(field, name, schema_registry)
    if name == "json":
        return JsonForm(None if schema is None else type_of_schema(f"{field}_schema", schema))
    return TextForm() if name == "text" else BinaryForm()
