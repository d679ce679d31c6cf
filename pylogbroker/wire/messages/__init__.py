"""The messages by API key: one module per API, imported on demand: a class takes milliseconds.

In the tables of versions, "KIP-219 throttling" means that clients throttle themselves: the broker answers at once.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import Final

import attrs

from pylogbroker.wire.schema import Request, Response, Versions

_DECLARATION: Final = re.compile(
    rb"^    api_key = (\d+)\n    versions = Versions\((\d+), (\d+)(?:, flexible=(\d+))?\)$", re.MULTILINE
)


@attrs.frozen
class Declared:
    """Declaration of an API; `module` has its messages."""

    module: str
    name: str
    versions: Versions


def _read_declarations() -> dict[int, Declared]:
    """Read the declarations from the source of each module: 40 microseconds; an import takes milliseconds."""
    found = {}
    for module in iter_modules(__path__):
        declared = _DECLARATION.search(get_data(__name__, f"{module.name}.py") or b"")
        if declared is None:
            raise ImportError(f"{__name__}.{module.name} declares no api_key and versions")
        key, first, last, flexible = declared.groups()
        versions = Versions(int(first), int(last), None if flexible is None else int(flexible))
        found[int(key)] = Declared(module.name, module.name.title().replace("_", ""), versions)
    return dict(sorted(found.items()))


class Apis(Mapping[int, tuple[type[Request], type[Response]]]):
    def __init__(self) -> None:
        self._imported: dict[int, tuple[type[Request], type[Response]]] = {}

    @cached_property
    def declared(self) -> Mapping[int, Declared]:
        """The declarations, known without an import of the messages."""
        return _read_declarations()

    def __getitem__(self, api_key: int) -> tuple[type[Request], type[Response]]:
        found = self._imported.get(api_key)
        if found is None:
            declared = self.declared[api_key]
            module = import_module(f"{__name__}.{declared.module}")
            found = getattr(module, f"{declared.name}Request"), getattr(module, f"{declared.name}Response")
            self._imported[api_key] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.declared)

    def __len__(self) -> int:
        return len(self.declared)


SUPPORTED: Final = Apis()
"""The declared APIs; `request.versions` says which versions."""
