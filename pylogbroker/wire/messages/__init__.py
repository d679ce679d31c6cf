"""The messages by API key: one module per API, imported on demand: a class takes milliseconds.

In the tables of versions, "KIP-219 throttling" means that clients throttle themselves: the broker answers at once.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Final

import attrs

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Request, Response, Versions


@attrs.frozen
class Declared:
    """Declaration of an API; `module` has its messages."""

    module: str
    name: str
    versions: Versions


class Apis(Mapping[int, tuple[type[Request], type[Response]]]):
    def __init__(self) -> None:
        self._imported: dict[int, tuple[type[Request], type[Response]]] = {}

    @cached_property
    def declared(self) -> Mapping[int, Declared]:
        """The declarations, known without an import of the messages."""
        return {
            key: Declared(module, module.title().replace("_", ""), versions)
            for module, (key, versions) in sorted(APIS.items(), key=lambda row: row[1][0])
        }

    def __getitem__(self, api_key: int) -> tuple[type[Request], type[Response]]:
        classes = self._imported.get(api_key)
        if classes is None:
            declared = self.declared[api_key]
            module = import_module(f"{__name__}.{declared.module}")
            classes = getattr(module, f"{declared.name}Request"), getattr(module, f"{declared.name}Response")
            self._imported[api_key] = classes
        return classes

    def __iter__(self) -> Iterator[int]:
        return iter(self.declared)

    def __len__(self) -> int:
        return len(self.declared)


SUPPORTED: Final = Apis()
"""The declared APIs; `request.versions` says which versions."""
