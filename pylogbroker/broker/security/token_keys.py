"""Public keys of an issuer of tokens, from a file or by HTTP."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from threading import Lock
from typing import Final, Generic, TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit

import attrs
from twisted.logger import Logger

from pylogbroker.errors import ConfigError

log = Logger()
K = TypeVar("K")
_TIMEOUT_SECONDS: Final = 10.0
_BYTES_MAX: Final = 1024 * 1024
_UNKNOWN_SECONDS: Final = 10.0
"""Time between two readings for tokens with an unknown key, which anybody can send."""


@attrs.define(eq=False, repr=False)
class TokenKeys(Generic[K]):
    """Keys, which any thread may read again. If that fails, the former keys stay.

    `_parse` makes them of a text, and gets the name of the place for its errors.
    """

    url: str
    keys: K = attrs.field(repr=False)
    _parse: Callable[[bytes, str], K]
    _seconds: Callable[[], float] = time.monotonic
    _read_at: float = attrs.field(init=False)
    _lock: Lock = attrs.field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._read_at = self._seconds()

    @classmethod
    def open(cls, url: str, setting: str, parse: Callable[[bytes, str], K]) -> TokenKeys[K]:
        """Read the keys; raise ConfigError. Blocks."""
        return cls(url, _read(url, setting, parse), parse)

    def read_again(self) -> None:
        """Read the keys again; log why that fails. Blocks."""
        self._read_at = self._seconds()
        try:
            self.keys = _read(self.url, "keys of tokens", self._parse)
        except ConfigError as error:
            log.error("the former keys of tokens stay: {error}", error=error)
        except Exception:  # else the keys would never be read again
            log.failure("the keys of tokens could not be read; the former ones stay")

    def read_for_unknown(self) -> bool:
        """Read the keys again; return False if that was done lately, or is being done. Blocks.

        Only one thread waits for the issuer: the others must stay free for clients with valid tokens.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._seconds() - self._read_at < _UNKNOWN_SECONDS:
                return False
            self.read_again()
            return True
        finally:
            self._lock.release()


def _read(url: str, setting: str, parse: Callable[[bytes, str], K]) -> K:
    where = f"{setting}: {url}"
    scheme = urlsplit(url).scheme
    if scheme not in ("file", "http", "https"):
        raise ConfigError(f"{where}: this value is not accepted; expected file:///PATH, https://... or http://...")
    try:
        context = ssl.create_default_context() if scheme == "https" else None  # the authorities may have changed
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS, context=context) as answer:
            text: bytes = answer.read(_BYTES_MAX + 1)
    except (OSError, ValueError, HTTPException) as error:  # HTTPException: the answer is no HTTP, or cut off
        why = error.reason if isinstance(error, URLError) else error
        raise ConfigError(f"{where}: the keys cannot be read: {why}") from None
    if len(text) > _BYTES_MAX:
        raise ConfigError(f"{where}: the keys have more than {_BYTES_MAX} bytes")
    return parse(text, where)
