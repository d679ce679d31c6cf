"""Parameters that a request of Twisted gives: texts of its query or form, and members of its JSON body."""

from __future__ import annotations

import json
from typing import Any, Final

from twisted.web.http import Request

from pylogbroker.json_text import MemberTwice, named_once
from pylogbroker.web.router.parameters import BadRequest

TEXT_BYTES_MAX: Final = 1000
"""Bytes of a parameter in an address."""


def texts_of(request: Request, bytes_max: int = TEXT_BYTES_MAX) -> dict[str, str]:
    """Return the parameters of query and form, of several of one name the last; raise BadRequest."""
    texts: dict[str, str] = {}
    for name, (*_, last) in (request.args or {}).items():
        try:
            texts[name.decode()] = last.decode()
        except UnicodeDecodeError:
            raise BadRequest("a parameter is not UTF-8") from None
        if len(last) > bytes_max:
            raise BadRequest(f"a parameter has more than {bytes_max} bytes")
    return texts


def content_of(request: Request) -> bytes:
    if request.content is None:
        return b""
    request.content.seek(0)
    return bytes(request.content.read())


def content_type_of(request: Request) -> str:
    return (request.getHeader("content-type") or "").partition(";")[0].strip().lower()


def members_of(content: bytes) -> dict[str, Any]:
    """Return the members of a JSON object, none for an empty body; raise BadRequest."""
    if not content:
        return {}
    try:
        members = json.loads(content, object_pairs_hook=named_once, parse_constant=_reject)
    except MemberTwice as error:
        raise BadRequest(str(error)) from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(members, dict):
        raise BadRequest("the body is not a JSON object")
    return members


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
