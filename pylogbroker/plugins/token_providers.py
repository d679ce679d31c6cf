"""The built-in token providers.

| choice                    | token                                                       |
|---------------------------|-------------------------------------------------------------|
| `file:/run/secrets/token` | text of the file, read for each connection                  |
| `unsecured:alice`         | for trying out: JWT of this subject, without a signature    |
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import BearerToken, ITokenProvider, ITokenProviderFactory

_LIFETIME_SECONDS = 3600


@implementer(ITokenProvider)
@attrs.frozen
class FileTokens:
    _path: Path

    def token(self) -> BearerToken:
        return BearerToken(self._path.read_text("ascii").strip())


@implementer(ITokenProvider)
@attrs.frozen
class UnsecuredTokens:
    _subject: str
    _seconds: Callable[[], float] = time.time

    def token(self) -> BearerToken:
        now = int(self._seconds())
        claims = {"sub": self._subject, "iat": now, "exp": now + _LIFETIME_SECONDS}
        return BearerToken(f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.")


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@implementer(IPlugin, ITokenProviderFactory)
@attrs.frozen
class FileTokensFactory:
    name: str = "file"

    def make(self, argument: str, settings: Mapping[str, object]) -> ITokenProvider:
        if not argument:
            raise ValueError("expected a file after a colon: file:/run/secrets/token")
        return FileTokens(Path(argument))


@implementer(IPlugin, ITokenProviderFactory)
@attrs.frozen
class UnsecuredTokensFactory:
    name: str = "unsecured"

    def make(self, argument: str, settings: Mapping[str, object]) -> ITokenProvider:
        if not argument:
            raise ValueError("expected a subject after a colon: unsecured:alice")
        return UnsecuredTokens(argument)


file_tokens = FileTokensFactory()
unsecured_tokens = UnsecuredTokensFactory()
