"""Schemas that records name: asked for once each, with a bound for those that cannot be used."""

from __future__ import annotations

import json

import pytest

from pylogbroker.schemas.errors import InvalidSchema, RegistryUnavailable, UnknownSchema
from pylogbroker.schemas.registry_client import Answer, RegistryClient, ResolvedSchema
from pylogbroker.schemas.schema_cache import UNUSABLE_MAX, SchemaCache

KNOWN = Answer(200, json.dumps({"schema": '"long"'}).encode())
UNKNOWN = Answer(404, json.dumps({"error_code": 40403, "message": "Schema not found"}).encode())


class CountingRegistry:
    """Has the schemas below 10, and counts requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.is_up = True

    async def exchange(self, method: str, path: str, body: bytes | None) -> Answer:
        self.paths.append(path)
        if not self.is_up:
            raise RegistryUnavailable("the registry is down")
        return KNOWN if int(path.rpartition("/")[2]) < 10 else UNKNOWN


@pytest.fixture
def registry() -> CountingRegistry:
    return CountingRegistry()


@pytest.fixture
def cache(registry: CountingRegistry) -> SchemaCache[str]:
    def make(key: object, resolved: ResolvedSchema) -> str:
        if key == 9:
            raise InvalidSchema("nine is not accepted")
        return f"{key} {resolved.schema.text}"

    return SchemaCache(RegistryClient(registry.exchange, "http://registry"), make)


def test_a_schema_is_asked_for_once(registry: CountingRegistry, cache: SchemaCache[str]) -> None:
    assert [cache.get(3), cache.get(3), cache.get(4)] == ['3 "long"', '3 "long"', '4 "long"']
    assert registry.paths == ["/schemas/ids/3", "/schemas/ids/4"]


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [(10, UnknownSchema, "http://registry has no schema 10"), (9, InvalidSchema, "nine is not accepted")],
)
def test_an_unusable_schema_gives_the_same_error_again(
    registry: CountingRegistry, cache: SchemaCache[str], key: int, kind: type[Exception], text: str
) -> None:
    depths = []
    for _ in range(5):
        with pytest.raises(kind, match=text) as caught:
            cache.get(key)
        depths.append(len(caught.traceback))
    assert len(registry.paths) == 1
    assert len(set(depths[1:])) == 1, "the error grows"


def test_a_registry_that_was_down_is_asked_again(registry: CountingRegistry, cache: SchemaCache[str]) -> None:
    registry.is_up = False
    with pytest.raises(RegistryUnavailable):
        cache.get(3)
    registry.is_up = True
    assert cache.get(3) == '3 "long"'


def test_no_schema_is_asked_for_after_many_unusable_ones(registry: CountingRegistry, cache: SchemaCache[str]) -> None:
    assert cache.get(3)
    for key in range(10, 10 + UNUSABLE_MAX):
        with pytest.raises(UnknownSchema, match="has no schema"):
            cache.get(key)
    with pytest.raises(UnknownSchema, match=r"1,000 other schemas.*is not asked for more"):
        cache.get(4)
    assert len(registry.paths) == 1 + UNUSABLE_MAX
    assert cache.get(3) == '3 "long"'
