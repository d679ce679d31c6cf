"""Names that tests write: of APIs, errors and others. An unknown one raises at once, with the likely correction."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}
_KEYS = {api.name: api.key for api in APIS}


def api_key(api: str | int) -> int:
    """Return the key of an API; raise ValueError for an unknown one."""
    if isinstance(api, int):
        if api not in _KEYS.values():
            raise ValueError(f"there is no API with the key {api}")
        return api
    try:
        return _KEYS[api]
    except KeyError:
        raise unknown("API", api, _KEYS) from None


def api_name(key: int) -> str:
    return next(name for name, number in _KEYS.items() if number == key)


def error_code(error: str | int) -> ErrorCode:
    """Return the code of an error by its name or number; raise ValueError for an unknown one."""
    try:
        return ErrorCode.__members__[error] if isinstance(error, str) else _CODES[error]
    except KeyError:
        if isinstance(error, int):
            raise ValueError(f"there is no error with the code {error}") from None
        raise unknown("error", error, ErrorCode.__members__) from None


def unknown(kind: str, name: str, names: Iterable[str]) -> ValueError:
    """Return the error for an unknown name."""
    by_case = {candidate.casefold().replace("_", ""): candidate for candidate in names}
    likely = get_close_matches(name.casefold().replace("_", ""), by_case, 1)
    hint = f": did you mean {by_case[likely[0]]!r}?" if likely else ""
    return ValueError(f"there is no {kind} {name!r}{hint}")
