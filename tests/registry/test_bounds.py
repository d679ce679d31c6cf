"""Bounds of the registry: references that fan out, long lists and bodies, kept schemas, and failures nobody foresaw."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.server import Site

from pylogbroker.registry import references as references_module
from pylogbroker.registry import registry as registry_module
from pylogbroker.registry import site as site_module
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.records import version_record
from pylogbroker.registry.references import DEPTH_MAX, texts_of_references
from pylogbroker.registry.rest import schemas as schemas_module
from pylogbroker.registry.site import RegistryRequest, RegistryResource
from pylogbroker.registry.state import RegistryState
from pylogbroker.schemas.values import Reference, Schema, Version
from tests.broker.trees import now
from tests.web.hosted_registry import LONGER, ORDER, HostedRegistryTests


def state_of(*versions: Version) -> RegistryState:
    state = RegistryState()
    for version in versions:
        state.apply(version_record(version))
    return state


def fan(levels: int) -> RegistryState:
    """Return a state in which each schema refers twice to the one below it."""
    versions = [Version("s-0", 1, 1, Schema("0"))]
    for level in range(1, levels + 1):
        below = tuple(Reference(f"{level}-{part}", f"s-{level - 1}", 1) for part in "ab")
        versions.append(Version(f"s-{level}", 1, level + 1, Schema(str(level), references=below)))
    return state_of(*versions)


def test_each_schema_is_followed_once() -> None:
    state = fan(DEPTH_MAX)
    with patch.object(RegistryState, "version", autospec=True, side_effect=RegistryState.version) as version:
        texts = texts_of_references(state, "s", state.version(f"s-{DEPTH_MAX}", 1).schema)
    assert version.call_count == 2 * DEPTH_MAX + 1
    assert list(texts.items())[:3] == [("1-a", "0"), ("1-b", "0"), ("2-a", "1")]
    assert len(texts) == 2 * DEPTH_MAX


def test_references_are_bounded() -> None:
    deep = fan(DEPTH_MAX + 1)
    with pytest.raises(RegistryError, match="more than 100 schemas"):
        texts_of_references(deep, "s", deep.version(f"s-{DEPTH_MAX + 1}", 1).schema)
    state = fan(5)
    schema = state.version("s-5", 1).schema
    for name, reason in (("SCHEMAS_MAX", "refers to more than 4"), ("CHARACTERS_MAX", "more than 4 characters")):
        with patch.object(references_module, name, 4), pytest.raises(RegistryError, match=reason):
            texts_of_references(state, "s", schema)


def test_a_circle_is_noticed() -> None:
    one = Version("a", 1, 1, Schema("a", references=(Reference("b", "b", 1),)))
    other = Version("b", 1, 2, Schema("b", references=(Reference("a", "a", 1),)))
    with pytest.raises(RegistryError, match="refers to itself"):
        texts_of_references(state_of(one, other), "c", one.schema)


def test_names_follow_each_change() -> None:
    state = state_of(Version("b", 1, 1, Schema('"int"')))
    assert state.subjects() == ["b"]
    state.subjects().append("not kept")
    state.apply(version_record(Version("a", 1, 2, Schema('"long"'))))
    assert state.subjects() == ["a", "b"]
    state.apply(version_record(Version("a", 1, 2, Schema('"long"'), is_deleted=True)))
    assert (state.subjects(), state.subjects(deleted=True)) == (["b"], ["a", "b"])


class BoundTests(HostedRegistryTests):
    def fail(self, path: str) -> tuple[int, str]:
        answer = now(self.registry.ask("GET", path, None))
        body = json.loads(answer.body)
        return answer.status, body["message"]

    def test_long_lists_of_schemas(self) -> None:
        for number, text in enumerate((ORDER, LONGER)):
            self.register(f"s-{number}", text)
        with patch.object(schemas_module, "LIST_CHARACTERS_MAX", len(LONGER)):
            status, reason = self.fail("/schemas")
            self.assertEqual((status, "ask for fewer by limit" in reason), (400, True))
            self.assertEqual(len(self.ask_registry("GET /schemas?offset=1&limit=1")), 1)

    def test_parsed_schemas_are_kept_by_their_length(self) -> None:
        registry = self.registry.registry
        with patch.object(registry_module, "_PARSED_CHARACTERS_MAX", 3 * len(LONGER)):
            for number in range(9):
                self.register(f"s-{number}", LONGER.replace("note", f"not{number}"))
            self.assertLessEqual(registry._parsed_characters, 3 * len(LONGER))
        self.assertEqual(registry._parsed_characters, sum(source.characters for source in registry._parsed))
        self.assertGreater(len(registry._parsed), 0)

    def test_long_bodies_and_contracts_are_read_in_threads(self) -> None:
        calls: list[str] = []

        def in_thread(function: Any, *arguments: Any) -> Any:
            calls.append(function.__name__)
            return succeed(function(*arguments))

        self.registry.registry.in_thread = in_thread
        self.register("s", ORDER)
        self.assertEqual((calls.count("_body"), calls.count("schema_of")), (0, 0))
        self.register("t", LONGER, metadata={"properties": {"doc": "x" * site_module._INLINE_BYTES}})
        self.assertEqual((calls.count("_body"), calls.count("schema_of")), (1, 1))


def test_a_failure_that_nobody_foresaw_is_answered() -> None:
    async def respond(request: RegistryRequest, http: object) -> Any:
        raise OSError("the disk is gone")

    transport = StringTransport()
    protocol = Site(RegistryResource(respond)).buildProtocol(None)
    protocol.makeConnection(transport)
    with patch.object(site_module.log, "failure") as logged:
        protocol.dataReceived(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert transport.value().startswith(b"HTTP/1.1 500 ")
    assert b'"error_code": 50001' in transport.value()
    assert b"the disk is gone" not in transport.value()
    assert logged.call_count == 1
    protocol.connectionLost(Failure(ConnectionDone()))
