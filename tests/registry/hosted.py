"""Requests to the schema registry of a broker that tests start on Twisted's reactor."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import attrs
from twisted.internet.threads import deferToThread

JSON: Final = "application/vnd.schemaregistry.v1+json"


@attrs.frozen
class RegistryUser:
    """Sender of requests to the registry at a URL."""

    url: str
    login: str = ""
    """USER:PASSWORD, empty for none."""
    context: ssl.SSLContext | None = None

    def ask_now(self, request: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of the answer to "GET /path". Blocks."""
        method, path = request.split()
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": JSON}
        if self.login:
            headers["Authorization"] = f"Basic {b64encode(self.login.encode()).decode()}"
        sent = Request(self.url + path, content, headers, method=method)
        try:
            with urlopen(sent, timeout=60, context=self.context) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    async def ask(self, request: str, body: Any = None) -> Any:
        """Return the JSON of an answer, whose status must be 200."""
        status, answer = await deferToThread(self.ask_now, request, body)
        assert status in (200, 204), (status, answer)
        return answer

    async def fail(self, request: str, body: Any = None) -> tuple[int, str]:
        """Return the code and the message of an error."""
        status, answer = await deferToThread(self.ask_now, request, body)
        assert status >= 400, (status, answer)
        return answer["error_code"], answer["message"]
