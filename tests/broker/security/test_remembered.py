"""Bounds in bytes of what is remembered about clients, whatever names they send."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.client_quotas import _Meters
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, QuotaTable
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.security.quotas.rates import SampledRate, Windows
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.nodes import Node, opened_node
from tests.broker.security.test_access import AUTHORIZER
from tests.net.fakes import FakeFactory, connect, frame

MEGABYTE = 1024 * 1024


@contextmanager
def little_memory(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[0] < limit
    finally:
        tracemalloc.stop()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with opened_node((str(tmp_path),), AUTHORIZER) as opened:
        yield opened


@pytest.mark.parametrize(("count", "length"), [(1000, 32_000), (40_000, 240)])
def test_verdicts_remembered_for_long_names_are_bounded(node: Node, count: int, length: int) -> None:
    assert node.broker.authorizer is not None
    access = node.broker.authorizer.access("User:alice", "10.0.0.1")
    with little_memory(6 * MEGABYTE):
        for number in range(count):
            name = "\N{WORLD MAP}" * length + str(number)
            assert not access.allows(AclOperation.READ, AclResourceType.TOPIC, name, quietly=True)


def test_connections_of_one_principal_and_host_share_their_verdicts(node: Node) -> None:
    authorizer = node.broker.authorizer
    assert authorizer is not None
    access = authorizer.access("User:alice", "10.0.0.1")
    assert authorizer.access("User:alice", "10.0.0.1") is access
    for principal, host in (("User:bob", "10.0.0.1"), ("User:alice", "10.0.0.2")):
        other = authorizer.access(principal, host)
        assert (other.principal, other is access) == (principal, False)


def test_quota_meters_of_long_client_ids_are_bounded() -> None:
    windows = Windows()
    meters = _Meters(QuotaKey.PRODUCER_BYTE_RATE, windows, SampledRate)
    meters.set_table(QuotaTable({QuotaEntity(None, DEFAULT): {QuotaKey.PRODUCER_BYTE_RATE: 1000.0}}))
    context = RequestContext(0, "", "10.0.0.1", "here")
    with little_memory(6 * MEGABYTE):
        for number in range(1000):
            meters.of(attrs.evolve(context, client_id=f"{number}" * 8000), number)
    long, other = (attrs.evolve(context, client_id="a" * 30_000 + end) for end in ("", "b"))
    found = meters.of(long, 1000)
    assert found is not None
    assert meters.of(long, 1000) == found
    assert meters.of(other, 1000) != found


def test_long_client_ids_are_not_remembered() -> None:
    protocol, _ = connect(FakeFactory((Api.of(ApiVersionsRequest, lambda *_: ApiVersionsResponse()),)))
    with little_memory(MEGABYTE):
        for number in range(60):
            id_ = b"%d" % number * 16_000
            request = memoryview(frame(ApiVersionsRequest(), 0, 1, id_.decode()))[4:]
            (_, context), _ = protocol._headers.resolve(request, 18, 0, len(id_))
            assert context.client_id == id_.decode()
