"""Resources that answer with plain text."""

from __future__ import annotations

from typing import Final

from twisted.web.resource import Resource
from twisted.web.server import Request

PLAIN_TEXT: Final = b"text/plain; charset=utf-8"


def answer_text(request: Request, text: str, code: int = 200) -> bytes:
    """Set code and type; return the body."""
    request.setResponseCode(code)
    request.setHeader(b"content-type", PLAIN_TEXT)
    return f"{text}\n".encode()


class Directory(Resource):
    """Resource that has only children: it is not found itself, nor are others below it."""

    def getChild(self, path: bytes, request: Request) -> Resource:
        return _NotFound()

    def render(self, request: Request) -> bytes:
        return answer_text(request, "not found", 404)


class Page(Resource):
    """Leaf that answers GET and HEAD; subclasses define `render_GET`."""

    isLeaf = True

    def render(self, request: Request) -> bytes | int:
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")
            return answer_text(request, "method not allowed", 405)
        if request.postpath:
            return answer_text(request, "not found", 404)
        return self.render_GET(request)

    def render_GET(self, request: Request) -> bytes | int:
        """Return the body, or NOT_DONE_YET."""
        raise NotImplementedError


class _NotFound(Page):
    def render(self, request: Request) -> bytes | int:
        return answer_text(request, "not found", 404)
