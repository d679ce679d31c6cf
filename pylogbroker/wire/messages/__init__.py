"""The messages by API key: one module per API, imported on demand: a class takes milliseconds.

In the tables of versions, "KIP-219 throttling" means that clients throttle themselves: the broker answers at once.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import Final

from pylogbroker.wire.schema import Request, Response

_KEY: Final = re.compile(rb"^    api_key = (\d+)$", re.MULTILINE)


def _find_modules() -> dict[int, str]:
    """Return the modules by API key, read from their source: 40 microseconds; an import takes milliseconds."""
    found = {}
    for module in iter_modules(__path__):
        key = _KEY.search(get_data(__name__, f"{module.name}.py") or b"")
        if key is None:
            raise ImportError(f"{__name__}.{module.name} declares no api_key")
        found[int(key[1])] = module.name
    return dict(sorted(found.items()))


class Apis(Mapping[int, tuple[type[Request], type[Response]]]):
    def __init__(self) -> None:
        self._modules: dict[int, str] = {}
        self._imported: dict[int, tuple[type[Request], type[Response]]] = {}

    def __getitem__(self, api_key: int) -> tuple[type[Request], type[Response]]:
        found = self._imported.get(api_key)
        if found is None:
            name = self._by_key()[api_key]
            module, stem = import_module(f"{__name__}.{name}"), name.title().replace("_", "")
            found = getattr(module, f"{stem}Request"), getattr(module, f"{stem}Response")
            self._imported[api_key] = found
        return found

    def _by_key(self) -> dict[int, str]:
        if not self._modules:
            self._modules = _find_modules()
        return self._modules

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_key())

    def __len__(self) -> int:
        return len(self._by_key())


SUPPORTED: Final = Apis()
"""The declared APIs; `request.versions` says which versions."""
