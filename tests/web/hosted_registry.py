"""A node with a schema registry of its own, whose pages and HTTP API are asked."""

from __future__ import annotations

import json
from typing import Any, Final

from pylogbroker.registry.service import RegistryService
from pylogbroker.web.hosted_registry import RegistrySender
from tests.broker.trees import now
from tests.web.test_views import ViewTests

ORDER: Final = json.dumps({"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]})
LONGER: Final = ORDER.replace("}]}", '}, {"name": "note", "type": "string", "default": ""}]}')
OBJECT: Final = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


class HostedRegistryTests(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.registry = RegistryService(self.site_clock, self.node.broker)
        self.source.schemas.host(self.registry)

    def ask_registry(self, request: str, body: Any = None) -> Any:
        """Return the JSON of the answer to "METHOD /path", which a user may send who may do everything."""
        method, path = request.split()
        content = None if body is None else json.dumps(body).encode()
        answer = now(self.registry.ask_for(RegistrySender("User:root"), method, path, content))
        self.assertEqual(answer.status, 200, answer.body)
        return json.loads(answer.body)

    def register(self, subject: str, text: str, kind: str = "AVRO", **more: Any) -> int:
        body = {"schema": text, "schemaType": kind, **more}
        identifier: int = self.ask_registry(f"POST /subjects/{subject}/versions", body)["id"]
        return identifier
