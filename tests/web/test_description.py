"""The description of the API has all of it; `ViewTests` compares every answer with it."""

from __future__ import annotations

import json

from pylogbroker.web.views import CHANGES, FAULT_CHANGES, FAULT_VIEWS, VIEWS
from tests.web.described import description
from tests.web.test_views import ViewTests


class TestDescription(ViewTests):
    def test_it_has_every_path(self) -> None:
        paths = description()["paths"]
        found = {(path.removeprefix("/api/"), method) for path, each in paths.items() for method in each}
        views, changes = {**VIEWS, **FAULT_VIEWS}, {**CHANGES, **FAULT_CHANGES}
        self.assertEqual(
            found, {("live", "get")} | {(name, "get") for name in views} | {(name, "post") for name in changes}
        )

    def test_it_is_served(self) -> None:
        self.assertEqual(json.loads(self.connect().get("/api/openapi.json").body), description())
