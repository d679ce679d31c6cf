"""Resources that answer with plain text."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from twisted.web.resource import Resource
from twisted.web.server import Request

_METHODS: Final = (b"GET", b"HEAD")
_PLAIN_TEXT: Final = b"text/plain; charset=utf-8"


def answer_text(request: Request, text: str, code: int = 200) -> bytes:
    """Set code and type; return the body."""
    request.setResponseCode(code)
    request.setHeader(b"content-type", _PLAIN_TEXT)
    return f"{text}\n".encode()


class Page(Resource):
    """Leaf that answers GET and HEAD; subclasses define `render_GET`."""

    isLeaf = True

    def render(self, request: Request) -> bytes | int:
        if request.method not in _METHODS:
            request.setHeader(b"allow", b", ".join(_METHODS))
            return answer_text(request, "method not allowed", 405)
        if request.postpath:
            return answer_text(request, "not found", 404)
        return self.render_GET(request)

    def render_GET(self, request: Request) -> bytes | int:
        """Return the body, or NOT_DONE_YET."""
        raise NotImplementedError


class StaticPage(Page):
    """File of this package, in the folder `static`."""

    def __init__(self, name: str, content_type: bytes) -> None:
        super().__init__()
        self._content = files("pylogbroker.web").joinpath("static", name).read_bytes()
        self._content_type = content_type

    def render_GET(self, request: Request) -> bytes | int:
        request.setHeader(b"content-type", self._content_type)
        return self._content
